import { useQueryClient } from "@tanstack/react-query";
import { COMMANDS } from "../../shared/commands/commands";
import type { NamespaceId } from "../../shared/policies/policy-queries";
import { PropertiesPanel } from "../../shared/properties/properties-panel";
import type { Properties } from "../../shared/properties/property-lines";
import { namespaceQuery, setProperties } from "./queries";

export function NamespaceProperties({
  id,
  shown,
  why,
}: {
  id: NamespaceId;
  shown: Properties;
  why: string | null;
}) {
  const client = useQueryClient();
  const query = namespaceQuery(id);
  return (
    <PropertiesPanel
      of={{
        what: "namespace",
        name: `${id.tenant}/${id.namespace}`,
        save: async (value, expected) => {
          const made = await setProperties(id, value, expected);
          client.setQueryData(query.queryKey, (before) => before && { ...before, ...made });
        },
        read: () =>
          client.fetchQuery({ ...query, staleTime: 0 }).then(
            ({ properties }) => properties,
            () => null,
          ),
        commands: (value, expected) => COMMANDS.setNamespaceProperties(id, { value, expected }),
      }}
      given={shown}
      why={why}
    />
  );
}
