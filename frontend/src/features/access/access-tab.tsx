import { AccessPanel } from "../../shared/access/access-panel";
import { nameOf, useTopicId } from "../../shared/topic/use-topic";

export function AccessTab() {
  const id = useTopicId();
  return <AccessPanel cluster={id.cluster} place={{ topic: nameOf(id) }} isPage />;
}
