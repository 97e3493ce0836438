import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { failureOf } from "../../lib/errors";
import { bytes, count } from "../../lib/format";
import type { TopicId } from "../../shared/topic/queries";
import dialog from "../../ui/dialog.module.css";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";

type Held = components["schemas"]["HeldBytes"];
type Holding = components["schemas"]["HoldingSubscription"];

/** The reasons that keep the topic's ledgers, read on request. */
export function HeldSpace({ id }: { id: TopicId }) {
  const [asked, setAsked] = useState(false);
  const answer = useQuery({
    queryKey: ["held space", id],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/held-space", {
          params: { path: id },
          signal,
        }),
      ),
    enabled: asked,
  });
  const space = answer.data;
  const read = () => (asked ? void answer.refetch() : setAsked(true));
  return (
    <Panel
      title="Why is this space not freed?"
      note={space && `bytes of one copy of ${space.copies}`}
      flush={space !== undefined}
      actions={
        <Button variant="default" loading={answer.isFetching} onClick={read}>
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
              { key: "holder", header: "Held by", grow: true, cell: (row) => row.holder },
              { key: "bytes", header: "Bytes", numeric: true, cell: (row) => bytes(row.bytes) },
              { key: "ledgers", header: "Ledgers", numeric: true, cell: (row) => count(row.ledgers) },
            ]}
          />
          <ul className={dialog.remarks} style={{ padding: "8px 16px" }}>
            {space.held.map(({ holder, why, next }) => (
              <li key={holder}>
                Held by {holder}: {why}. To free it: {next}.
              </li>
            ))}
          </ul>
          {space.subscriptions.length > 0 && (
            <Table<Holding>
              caption="Subscriptions that hold ledgers, most first"
              rows={space.subscriptions}
              rowKey={(row) => row.name}
              maxHeight={320}
              empty={null}
              columns={[
                { key: "name", header: "Subscription", grow: true, cell: (row) => row.name },
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
        </>
      )}
    </Panel>
  );
}
