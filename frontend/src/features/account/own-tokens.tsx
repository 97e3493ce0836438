import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Person } from "../../api/session/calls";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { roleText } from "../../shared/people/level-words";
import { endColumn, NAME, TIMES, type Token } from "../../shared/people/token-columns";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import styles from "./account.module.css";
import { NewTokenDialog } from "./new-token-dialog";
import { ownTokensQuery, revokeToken } from "./token-queries";

/** Tokens by which programs act for the person at the gateway. */
export function OwnTokens({ person }: { person: Person }) {
  const client = useQueryClient();
  const list = useQuery(ownTokensQuery);
  const [creates, setCreates] = useState(false);
  const revoke = useMutation({
    mutationFn: revokeToken,
    onSettled: () => client.invalidateQueries({ queryKey: ownTokensQuery.queryKey }),
  });
  const failure = failureOf(list);
  const answer = list.data;
  return (
    <Panel
      title="Personal tokens"
      note="For your programs, at gateways"
      flush
      actions={
        <Button
          variant="default"
          disabled={answer?.obstacle !== "" || person.viewing_as !== null}
          onClick={() => setCreates(true)}
        >
          New token…
        </Button>
      }
    >
      {answer?.obstacle && (
        <div className={styles.notice}>
          <Notice tone="info">
            <span lang="en">{answer.obstacle}.</span>
          </Notice>
        </div>
      )}
      {revoke.error && <ErrorNotice error={revoke.error} title="The token may still be valid" />}
      {failure && (
        <ErrorNotice error={failure} title="The tokens could not be listed" onRetry={list.refetch} />
      )}
      {answer ? (
        <Rows
          rows={answer.rows}
          revoking={revoke.isPending ? revoke.variables : null}
          onRevoke={revoke.mutate}
        />
      ) : (
        !failure && <Loading label="Loading tokens" rows={2} />
      )}
      {answer && answer.total > answer.rows.length && (
        <p className={styles.rest}>
          The newest {count(answer.rows.length)} of {plural(answer.total, "token")} are shown.
        </p>
      )}
      {creates && <NewTokenDialog person={person} onClose={() => setCreates(false)} />}
    </Panel>
  );
}

function Rows({
  rows,
  revoking,
  onRevoke,
}: {
  rows: readonly Token[];
  revoking: string | null;
  onRevoke: (id: string) => void;
}) {
  const now = useServerNow();
  return (
    <Table
      caption="Personal tokens"
      rows={rows}
      rowKey={({ id }) => id}
      empty={<Empty title="No personal token" />}
      columns={[
        NAME,
        { key: "role", header: "Acts as", wide: true, cell: roleText },
        ...TIMES,
        endColumn(now, (token) => (
          <Button
            size="compact-xs"
            variant="default"
            loading={revoking === token.id}
            aria-label={`Revoke ${token.name}`}
            onClick={() => onRevoke(token.id)}
          >
            Revoke
          </Button>
        )),
      ]}
    />
  );
}
