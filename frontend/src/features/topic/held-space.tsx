import { answerOf, api } from "../../api/client";
import { HeldSpacePanel } from "../../shared/storage/held-space";
import type { TopicId } from "../../shared/topic/queries";

/** The reasons that keep the topic's ledgers. */
export function HeldSpace({ id }: { id: TopicId }) {
  return (
    <HeldSpacePanel
      queryKey={["held space", id]}
      read={(signal) =>
        answerOf(
          api.GET("/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/held-space", {
            params: { path: id },
            signal,
          }),
        )
      }
      rowKey={(row) => row.name}
    />
  );
}
