import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import { SessionRows } from "../../shared/people/session-rows";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { endSession, endSessions, refreshPeople, sessionsQuery } from "./queries";

const ALL = "";

/** A person's sessions, which can be ended one by one or all. */
export function PersonSessions({ name }: { name: string }) {
  const client = useQueryClient();
  const list = useQuery(sessionsQuery(name));
  const failure = failureOf(list);
  const whyNot = useWhyNot(useCluster(), {});
  const end = useMutation({
    mutationFn: (id: string) => (id === ALL ? endSessions(name) : endSession(name, id)),
    onSettled: () => refreshPeople(client),
  });
  return (
    <Panel
      title="Sessions"
      flush
      actions={
        list.data &&
        list.data.length > 1 && (
          <ActionButton
            variant="default"
            loading={end.isPending && end.variables === ALL}
            why={whyNot("endSessions")}
            onClick={() => end.mutate(ALL)}
          >
            Sign out everywhere
          </ActionButton>
        )
      }
    >
      {end.error && <ErrorNotice error={end.error} title="A session may still be open" />}
      {failure && (
        <ErrorNotice error={failure} title="The sessions could not be listed" onRetry={list.refetch} />
      )}
      {list.data ? (
        <SessionRows
          caption="Sessions"
          rows={list.data}
          ending={end.isPending ? end.variables : null}
          why={whyNot("endSession")}
          onEnd={end.mutate}
        />
      ) : (
        !failure && <Loading label="Loading sessions" rows={2} />
      )}
    </Panel>
  );
}
