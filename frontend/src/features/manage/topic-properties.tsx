import { useQuery, useQueryClient } from "@tanstack/react-query";
import { failureOf } from "../../lib/errors";
import { COMMANDS } from "../../shared/commands/commands";
import { PropertiesPanel } from "../../shared/properties/properties-panel";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { propertiesQuery, setProperties } from "./queries";

export function TopicProperties({ id, why }: { id: TopicId; why: string | null }) {
  const client = useQueryClient();
  const query = propertiesQuery(id);
  const found = useQuery(query);
  return (
    <PropertiesPanel
      of={{
        what: "topic",
        name: nameOf(id),
        save: async (value, expected) =>
          client.setQueryData(query.queryKey, await setProperties(id, value, expected)),
        read: () =>
          client.fetchQuery({ ...query, staleTime: 0 }).then(
            ({ properties }) => properties,
            () => null,
          ),
        commands: (value, expected) => COMMANDS.setTopicProperties(id, { value, expected }),
      }}
      why={why}
      given={found.data?.properties}
      error={failureOf(found) ? found.error : null}
      onRetry={() => found.refetch()}
    />
  );
}
