import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "../../api/session/session";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import {
  endColumn,
  NEWEST_FIRST,
  nameColumn,
  TOKENS_PER_PAGE,
  type Token,
  type TokenField,
  timeColumns,
} from "../../shared/people/token-columns";
import { ActionButton } from "../../ui/action-button";
import { Pages } from "../../ui/grid/pages";
import { type SortableBy, sorting } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { NewTokenDialog, RevokeDialog } from "./token-dialogs";
import { tokensQuery } from "./token-queries";

const TABLE_PX = 480;

/** The tokens of a role, for superusers. */
export function RoleTokens({ cluster, role }: { cluster: string; role: string }) {
  const person = useSession().session?.person;
  const isFor = person?.reads_everything === true;
  // Order and page in the address are those of the role's rights.
  const [{ sort, page }, setShown] = useState({ sort: NEWEST_FIRST, page: 1 });
  const list = useQuery({ ...tokensQuery(role, sort, page), enabled: isFor });
  const by = sorting<TokenField>(sort, (next) => setShown({ sort: next, page: 1 }));
  const [open, setOpen] = useState<"new" | Token | null>(null);
  const whyNot = useWhyNot(cluster, {}, isFor);
  if (!isFor) return null;
  const failure = failureOf(list);
  const answer = list.data;
  return (
    <Panel
      title="Tokens"
      note="Issued by the console"
      flush
      actions={
        <>
          <Pages
            page={page}
            total={answer?.total}
            per={TOKENS_PER_PAGE}
            onTurn={(to = 1) => setShown({ sort, page: to })}
          />
          <ActionButton
            variant="default"
            disabled={answer?.obstacle !== ""}
            why={whyNot("issueToken")}
            onClick={() => setOpen("new")}
          >
            New token…
          </ActionButton>
        </>
      }
    >
      {answer?.obstacle && (
        <Notice tone="info">
          <span lang="en">{answer.obstacle}.</span>
        </Notice>
      )}
      {failure && (
        <ErrorNotice error={failure} title="The tokens could not be listed" onRetry={list.refetch} />
      )}
      {answer ? (
        <Rows rows={answer.rows} by={by} why={whyNot("revokeToken")} onRevoke={setOpen} />
      ) : (
        !failure && <Loading label="Loading tokens" rows={2} />
      )}
      {open === "new" && <NewTokenDialog role={role} onClose={() => setOpen(null)} />}
      {open !== null && open !== "new" && <RevokeDialog token={open} onClose={() => setOpen(null)} />}
    </Panel>
  );
}

function Rows({
  rows,
  by,
  why,
  onRevoke,
}: {
  rows: readonly Token[];
  by: SortableBy<TokenField>;
  why: string | null;
  onRevoke: (token: Token) => void;
}) {
  const now = useServerNow();
  return (
    <Table
      caption="Tokens"
      rows={rows}
      rowKey={({ id }) => id}
      maxHeight={TABLE_PX}
      empty={<Empty title="The console has issued no token of this role" />}
      columns={[
        nameColumn(by),
        { ...by("level"), key: "level", header: "Level", cell: ({ level }) => level },
        { key: "by", header: "Created by", wide: true, cell: ({ created_by: name }) => name },
        ...timeColumns(by),
        endColumn(now, (token) => (
          <ActionButton
            size="compact-xs"
            variant="default"
            why={why}
            aria-label={`Revoke… ${token.name}`}
            onClick={() => onRevoke(token)}
          >
            Revoke…
          </ActionButton>
        )),
      ]}
    />
  );
}
