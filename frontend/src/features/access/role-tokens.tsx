import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "../../api/session/session";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { endColumn, NAME, TIMES, type Token } from "../../shared/people/token-columns";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { NewTokenDialog, RevokeDialog } from "./token-dialogs";
import { tokensQuery } from "./token-queries";

const TABLE_PX = 480;

/** The tokens of a role, for superusers. */
export function RoleTokens({ role }: { role: string }) {
  const person = useSession().session?.person;
  const isFor = Boolean(person?.superuser && person.viewing_as === null);
  const list = useQuery({ ...tokensQuery(role), enabled: isFor });
  const [open, setOpen] = useState<"new" | Token | null>(null);
  if (!isFor) return null;
  const failure = failureOf(list);
  const answer = list.data;
  return (
    <Panel
      title="Tokens"
      note="Issued by the console"
      flush
      actions={
        <Button variant="default" disabled={answer?.obstacle !== ""} onClick={() => setOpen("new")}>
          New token…
        </Button>
      }
    >
      {answer?.obstacle && <Notice tone="info">{answer.obstacle}.</Notice>}
      {failure && (
        <ErrorNotice error={failure} title="The tokens could not be listed" onRetry={list.refetch} />
      )}
      {answer ? (
        <Rows rows={answer.rows} onRevoke={setOpen} />
      ) : (
        !failure && <Loading label="Loading tokens" rows={2} />
      )}
      {open === "new" && <NewTokenDialog role={role} onClose={() => setOpen(null)} />}
      {open !== null && open !== "new" && <RevokeDialog token={open} onClose={() => setOpen(null)} />}
    </Panel>
  );
}

function Rows({ rows, onRevoke }: { rows: readonly Token[]; onRevoke: (token: Token) => void }) {
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
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Revoke… ${token.name}`}
            onClick={() => onRevoke(token)}
          >
            Revoke…
          </Button>
        )),
      ]}
    />
  );
}
