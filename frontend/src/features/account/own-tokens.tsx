import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Person } from "../../api/session/calls";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { roleText } from "../../shared/people/level-words";
import {
  endColumn,
  NEWEST_FIRST,
  nameColumn,
  TOKEN_SORTS,
  TOKENS_PER_PAGE,
  type Token,
  type TokenField,
  timeColumns,
} from "../../shared/people/token-columns";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import type { SortableBy } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import styles from "./account.module.css";
import { NewTokenDialog } from "./new-token-dialog";
import { OWN_TOKENS, ownTokensQuery, revokeToken } from "./token-queries";

/** Tokens by which programs act for the person at the gateway. */
export function OwnTokens({ person }: { person: Person }) {
  const client = useQueryClient();
  const { q = "" } = useSearch({ from: "/account" });
  const { sort, page, show, by, turning } = useOrder(TOKEN_SORTS, NEWEST_FIRST);
  const list = useQuery(ownTokensQuery(q, sort, page));
  const [creates, setCreates] = useState(false);
  const revoke = useMutation({
    mutationFn: revokeToken,
    onSettled: () => client.invalidateQueries({ queryKey: OWN_TOKENS }),
  });
  const failure = failureOf(list);
  const answer = list.data;
  return (
    <Panel
      title="Personal tokens"
      note="For your programs, at gateways"
      flush
      actions={
        <>
          <Pages {...turning} total={answer?.total} per={TOKENS_PER_PAGE} />
          <FilterInput
            label="Part of the name"
            value={q}
            write={(value, replace) => show({ q: value || undefined }, replace)}
          />
          <Button
            variant="default"
            disabled={answer?.obstacle !== "" || person.viewing_as !== null}
            onClick={() => setCreates(true)}
          >
            New token…
          </Button>
        </>
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
          isFiltered={q !== ""}
          by={by}
          revoking={revoke.isPending ? revoke.variables : null}
          onRevoke={revoke.mutate}
        />
      ) : (
        !failure && <Loading label="Loading tokens" rows={2} />
      )}
      {creates && <NewTokenDialog person={person} onClose={() => setCreates(false)} />}
    </Panel>
  );
}

function Rows({
  rows,
  isFiltered,
  by,
  revoking,
  onRevoke,
}: {
  rows: readonly Token[];
  isFiltered: boolean;
  by: SortableBy<TokenField>;
  revoking: string | null;
  onRevoke: (id: string) => void;
}) {
  const now = useServerNow();
  return (
    <Table
      caption="Personal tokens"
      rows={rows}
      rowKey={({ id }) => id}
      empty={<Empty title={isFiltered ? "No token matches" : "No personal token"} />}
      columns={[
        nameColumn(by),
        { key: "role", header: "Acts as", wide: true, cell: roleText },
        ...timeColumns(by),
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
