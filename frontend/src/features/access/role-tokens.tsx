import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "../../api/session/session";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { useWhyNot } from "../../shared/access/may";
import { endColumn, NAME, TIMES, type Token } from "../../shared/people/token-columns";
import { ActionButton } from "../../ui/action-button";
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
  const list = useQuery({ ...tokensQuery(role), enabled: isFor });
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
        <ActionButton
          variant="default"
          disabled={answer?.obstacle !== ""}
          why={whyNot("issueToken")}
          onClick={() => setOpen("new")}
        >
          New token…
        </ActionButton>
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
        <Rows rows={answer.rows} why={whyNot("revokeToken")} onRevoke={setOpen} />
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
  why,
  onRevoke,
}: {
  rows: readonly Token[];
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
        NAME,
        { key: "level", header: "Level", cell: ({ level }) => level },
        { key: "by", header: "Created by", wide: true, cell: ({ created_by: name }) => name },
        ...TIMES,
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
