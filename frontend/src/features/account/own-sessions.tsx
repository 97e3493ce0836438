import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { endOwnSession, ownSessions } from "../../api/session/calls";
import { SessionRows } from "../../shared/people/session-rows";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";

const KEY = ["session", "sessions"];

/** The person's sessions, of which others can be ended. */
export function OwnSessions() {
  const client = useQueryClient();
  const list = useQuery({ queryKey: KEY, queryFn: ({ signal }) => ownSessions(signal) });
  const end = useMutation({
    mutationFn: endOwnSession,
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <Panel title="Sessions" note="Browsers in which you are signed in" flush>
      {end.error && <ErrorNotice error={end.error} title="The session may still be open" />}
      {list.data ? (
        <SessionRows
          caption="Sessions"
          rows={list.data}
          ending={end.isPending ? end.variables : null}
          onEnd={end.mutate}
        />
      ) : list.error ? (
        <ErrorNotice error={list.error} title="The sessions could not be listed" onRetry={list.refetch} />
      ) : (
        <Loading label="Loading sessions" rows={2} />
      )}
    </Panel>
  );
}
