import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime, duration, plural } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { useWhyNot } from "../../shared/access/may";
import { Freshness } from "../../shared/freshness";
import { Announce } from "../../shared/lists/list-filters";
import lists from "../../shared/lists/lists.module.css";
import { TopicLink } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import type { SortableBy } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Since } from "../../ui/since";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { AbortDialog } from "./abort-dialog";
import {
  type Coordinator,
  PER_PAGE,
  TRANSACTION_SORTS,
  type Transaction,
  transactionsQuery,
} from "./transaction-queries";
import { AGES, ageOf, idOf, NAMED_MAX, placesOf, reportedNumber, silentText } from "./transaction-words";

const route = getRouteApi("/c/$cluster/transactions");
const HEIGHT_PX = 620;
const COORDINATORS_PX = 320;

export function TransactionsPage() {
  useTitle("Transactions");
  const { cluster } = route.useParams();
  const { q, older } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(TRANSACTION_SORTS, "since");
  const found = useQuery(transactionsQuery(cluster, { q, older: ageOf(older), sort, page }));
  const whyNot = useWhyNot(cluster, {});
  const [aborted, setAborted] = useState<Transaction>();
  const answer = found.data;
  const isFiltered = Boolean(q || ageOf(older));
  const silent = answer ? silentText(answer.coordinators) : "";
  return (
    <Page>
      <PageHead
        title="Transactions"
        badges={
          answer?.enabled && (
            <span className={lists.total}>
              {silent && "≥ "}
              {count(answer.total)}
            </span>
          )
        }
        freshness={answer && <Freshness at={answer.at} />}
      />
      <search className={lists.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by owner, topic, subscription"
          value={q ?? ""}
          write={(value, replace) => show({ q: value || undefined }, replace)}
        />
        <NativeSelect
          aria-label="Age"
          size="xs"
          value={ageOf(older) ? older : ""}
          data={AGES.map(({ value, label }) => ({ value, label }))}
          onChange={(event) => show({ older: event.currentTarget.value || undefined })}
        />
        {isFiltered && (
          <Button variant="subtle" onClick={() => show({ q: undefined, older: undefined })}>
            Clear filters
          </Button>
        )}
        <Announce
          total={answer?.total}
          busy={found.isPlaceholderData}
          words={(total) => plural(total, "transaction")}
        />
      </search>
      {silent !== "" && <p role="status">{silent}</p>}
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={answer ? "The transactions could not be read again" : "The transactions could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {answer === undefined ? (
        found.isPending && <Loading label="Loading transactions" rows={8} />
      ) : answer.enabled ? (
        <>
          <Open
            rows={answer.rows}
            total={answer.total}
            isFiltered={isFiltered}
            isPartial={silent !== ""}
            by={by}
            pages={<Pages {...turning} total={answer.total} per={PER_PAGE} />}
            why={whyNot("abortTransaction")}
            onAbort={setAborted}
          />
          <Coordinators rows={answer.coordinators} />
        </>
      ) : (
        <Empty title="The brokers offer no transactions">
          The setting transaction_coordinator_enabled turns them on.
        </Empty>
      )}
      {aborted && (
        <AbortDialog
          place={{ cluster, coordinator: aborted.coordinator, number: aborted.number }}
          onChanged={() => found.refetch()}
          onClose={() => setAborted(undefined)}
        />
      )}
    </Page>
  );
}

function Open({
  rows,
  total,
  isFiltered,
  isPartial,
  by,
  pages,
  why,
  onAbort,
}: {
  rows: readonly Transaction[];
  total: number;
  isFiltered: boolean;
  isPartial: boolean;
  by: SortableBy<(typeof TRANSACTION_SORTS)[number]>;
  pages: ReactNode;
  why: string | null;
  onAbort: (row: Transaction) => void;
}) {
  return (
    <Panel
      title="Open transactions"
      note={isPartial ? `≥ ${count(total)}` : count(total)}
      actions={pages}
      flush
    >
      <Table<Transaction>
        caption="Open transactions"
        rows={rows}
        maxHeight={HEIGHT_PX}
        rowKey={idOf}
        empty={
          isFiltered ? (
            <Empty title="No transaction matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty
              title={
                isPartial ? "No open transaction of the coordinators that answer" : "No transaction is open"
              }
            >
              {isPartial ? "Those of the others are not known." : "Nothing is held back from consumers."}
            </Empty>
          )
        }
        columns={[
          {
            ...by("id"),
            key: "id",
            header: "Id",
            cell: (row) => <span className="mono">{idOf(row)}</span>,
          },
          { ...by("status"), key: "status", header: "State", cell: (row) => row.status.toLowerCase() },
          {
            ...by("since"),
            key: "age",
            header: "Since",
            numeric: true,
            cell: (row) => <Since at={row.since} />,
          },
          {
            ...by("timeout_ms", true),
            key: "timeout",
            header: "Time-out",
            numeric: true,
            wide: true,
            cell: (row) => duration(row.timeout_ms / 1000),
          },
          { ...by("owner"), key: "owner", header: "Owner", cell: (row) => row.owner ?? "—" },
          {
            key: "places",
            header: "Topics and subscriptions",
            grow: true,
            cell: (row) => <Places of={row} />,
          },
          {
            key: "abort",
            header: "Abort",
            headerHidden: true,
            cell: (row) => (
              <ActionButton
                why={row.status === "OPEN" ? why : "It is being ended"}
                onClick={() => onAbort(row)}
              >
                Abort …
              </ActionButton>
            ),
          },
        ]}
      />
    </Panel>
  );
}

function Places({ of }: { of: Transaction }) {
  const places = placesOf(of);
  if (places.length === 0) return "—";
  return (
    <>
      {places.slice(0, NAMED_MAX).map(({ text, name }) => {
        const topic = parseTopicName(name);
        return (
          <div key={text + name}>
            <small>{text}</small> {topic === null ? name : <TopicLink topic={topic} />}
          </div>
        );
      })}
      {places.length > NAMED_MAX && <small>and {count(places.length - NAMED_MAX)} more</small>}
    </>
  );
}

function Coordinators({ rows }: { rows: readonly Coordinator[] }) {
  const figure = (value: number | null) => (value === null ? "—" : count(value));
  return (
    <Panel title="Coordinators" note={count(rows.length)} flush>
      <Table<Coordinator>
        caption="Coordinators"
        rows={rows}
        maxHeight={COORDINATORS_PX}
        rowKey={(row) => row.coordinator}
        columns={[
          { key: "coordinator", header: "Coordinator", numeric: true, cell: (row) => row.coordinator },
          { key: "broker", header: "Broker", cell: (row) => row.broker ?? "—" },
          { key: "state", header: "State", cell: (row) => row.state ?? <span lang="en">{row.reason}</span> },
          { key: "open", header: "Open", numeric: true, cell: (row) => figure(row.open) },
          { key: "newest", header: "Newest", numeric: true, cell: (row) => reportedNumber(row.newest) },
          {
            key: "mark",
            header: "All ended up to",
            numeric: true,
            cell: (row) => reportedNumber(row.low_water_mark),
          },
          {
            key: "ready",
            header: "Ready since",
            wide: true,
            cell: (row) => (row.ready_at === null ? "—" : dateTime(row.ready_at)),
          },
        ]}
      />
    </Panel>
  );
}
