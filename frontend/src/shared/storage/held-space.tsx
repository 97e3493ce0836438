import { Button } from "@mantine/core";
import { type QueryKey, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { components } from "../../api/schema";
import { failureOf } from "../../lib/errors";
import { bytes, count } from "../../lib/format";
import dialog from "../../ui/dialog.module.css";
import { type Column, Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";

type Schemas = components["schemas"];
type Held = Schemas["HeldBytes"];
type Holding = Schemas["HoldingSubscription"];

export interface Space<Row extends Holding> {
  copies: number;
  held: Held[];
  subscriptions: Row[];
}

/** The reasons that keep ledgers, read on request. `where`: a column before the names of subscriptions. */
export function HeldSpacePanel<Row extends Holding, S extends Space<Row>>({
  queryKey,
  read,
  rowKey,
  where = [],
  children,
}: {
  queryKey: QueryKey;
  read: (signal: AbortSignal) => Promise<S>;
  rowKey: (row: Row) => string;
  where?: Column<Row>[];
  children?: (space: S) => ReactNode;
}) {
  const [asked, setAsked] = useState(false);
  const answer = useQuery({ queryKey, queryFn: ({ signal }) => read(signal), enabled: asked });
  const space = answer.data;
  return (
    <Panel
      title="Why is this space not freed?"
      note={space && `bytes of one copy of ${space.copies}`}
      flush={space !== undefined}
      actions={
        <Button
          variant="default"
          loading={answer.isFetching}
          onClick={() => (asked ? void answer.refetch() : setAsked(true))}
        >
          {space ? "Read again" : "Show"}
        </Button>
      }
    >
      {failureOf(answer) && (
        <ErrorNotice error={answer.error} title="What holds the ledgers could not be read" />
      )}
      {space === undefined ? (
        asked && answer.isPending && <Loading label="Reading what holds the ledgers" rows={3} />
      ) : (
        <>
          <Table<Held>
            caption="Bytes by what holds them, most first"
            rows={space.held}
            rowKey={(row) => row.holder}
            maxHeight={320}
            empty={<Empty title="Nothing is stored" />}
            columns={[
              {
                key: "holder",
                header: "Held by",
                grow: true,
                cell: (row) => <span lang="en">{row.holder}</span>,
              },
              ...heldColumns<Held>("Bytes"),
            ]}
          />
          <ul className={dialog.remarks} style={{ padding: "8px 16px" }}>
            {space.held.map(({ holder, why, next }) => (
              <li key={holder}>
                Held by{" "}
                <span lang="en">
                  {holder}: {why}
                </span>
                . To free it: <span lang="en">{next}</span>.
              </li>
            ))}
          </ul>
          {space.subscriptions.length > 0 && (
            <Table<Row>
              caption="Subscriptions that hold ledgers, most first"
              rows={space.subscriptions}
              rowKey={rowKey}
              maxHeight={320}
              empty={null}
              columns={[
                { key: "name", header: "Subscription", grow: true, cell: (row) => row.name },
                ...where,
                { key: "bytes", header: "Held", numeric: true, cell: (row) => bytes(row.bytes) },
                {
                  key: "alone",
                  header: "By it alone",
                  numeric: true,
                  cell: (row) => bytes(row.alone_bytes),
                },
                { key: "ledgers", header: "Ledgers", numeric: true, cell: (row) => count(row.ledgers) },
              ]}
            />
          )}
          {children?.(space)}
        </>
      )}
    </Panel>
  );
}

/** The columns of bytes, under their name, and of ledgers. */
export function heldColumns<Row extends { bytes: number; ledgers: number }>(header: string): Column<Row>[] {
  return [
    { key: "bytes", header, numeric: true, cell: (row) => bytes(row.bytes) },
    { key: "ledgers", header: "Ledgers", numeric: true, cell: (row) => count(row.ledgers) },
  ];
}
