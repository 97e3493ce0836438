import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { failureOf } from "../../lib/errors";
import { byteRate, count, dateTime, plural, rate } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { figureColumn } from "../../shared/figure";
import { useLacks } from "../../shared/lacking/lacking";
import { Unloading } from "../../shared/unloading/unloading";
import { ActionButton } from "../../ui/action-button";
import { sortedRows } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { balanceQuery } from "./balance/balance-queries";
import { BalancePanels, Load } from "./balance-panel";
import styles from "./cluster.module.css";
import { ClusterHead, State } from "./cluster-head";
import type { DrainChange } from "./drains/drain-queries";
import { progressOf } from "./drains/drain-words";
import { Draining } from "./drains/draining";
import { type Broker, brokersQuery } from "./queries";

const route = getRouteApi("/c/$cluster/brokers");
const ServerHistory = lazy(() =>
  import("./history/server-history").then((module) => ({ default: module.ServerHistory })),
);
const HEIGHT_PX = 560;
const RATES = ["msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out"] as const;
const SORTS = ["id", "state", "bundles", "topics", ...RATES] as const;

export function BrokersPage() {
  const { cluster } = route.useParams();
  const found = useQuery(brokersQuery(cluster));
  const whyNot = useWhyNot(cluster, {});
  const lacks = useLacks();
  const { sort, by } = useOrder(SORTS, "id");
  const rows = found.data && sortedRows(found.data.rows, sort, (row, field) => row[field]);
  const balance = useQuery({
    ...balanceQuery(cluster),
    enabled: rows !== undefined && !lacks["load-balance"],
  });
  const loads = new Map(balance.data?.loads.map((load) => [load.broker, load]));
  const drains = new Map(balance.data?.drains.map((drain) => [drain.broker, drain]));
  const unowned = found.data?.unowned ?? null;
  const [unloading, setUnloading] = useState<string | null>(null);
  const [draining, setDraining] = useState<DrainChange | null>(null);
  return (
    <Page>
      <ClusterHead title="Brokers" at={found.dataUpdatedAt} failed={found.isError} />
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={rows ? "The brokers could not be read again" : "The brokers could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {rows === undefined ? (
        found.isPending && <Loading label="Loading brokers" rows={6} />
      ) : (
        <Panel
          title="Brokers"
          note={count(rows.length)}
          flush
          actions={
            unowned !== null &&
            unowned > 0 && (
              <span className={styles.dim}>
                {plural(unowned, "bundle")} {unowned === 1 ? "has" : "have"} no owner; one is assigned on
                first use
              </span>
            )
          }
        >
          <Table<Broker>
            caption="Brokers"
            rows={rows}
            maxHeight={HEIGHT_PX}
            rowKey={(row) => row.id}
            empty={<Empty title="No broker is registered">Topics cannot be served until one starts.</Empty>}
            columns={[
              {
                ...by("id"),
                key: "id",
                header: "Broker",
                cell: (row) => (
                  <span className={styles.address}>
                    <span className="mono">{row.id}</span>
                    <small>{row.url}</small>
                    <small>
                      {row.started === null ? "start not reported" : `started ${dateTime(row.started)}`}
                    </small>
                    {balance.data?.leader === row.id && <small>leads the balance of load</small>}
                  </span>
                ),
              },
              {
                ...by("state"),
                key: "state",
                header: "State",
                cell: (row) => {
                  const drain = drains.get(row.id);
                  return (
                    <span className={styles.address}>
                      <State text={row.state} since={row.since} />
                      {drain && <small className={styles.why}>{progressOf(drain)}</small>}
                    </span>
                  );
                },
              },
              { key: "load", header: "Load", cell: (row) => <Load of={loads.get(row.id)} /> },
              {
                ...by("bundles", true),
                key: "bundles",
                header: "Bundles",
                numeric: true,
                cell: (row) => (
                  <Link
                    to="/c/$cluster/bundles"
                    params={{ cluster }}
                    search={{ broker: row.id, sort: "-bytes_rate_in" }}
                    aria-label={`Bundles of ${row.id}: ${count(row.bundles)}`}
                  >
                    {count(row.bundles)}
                  </Link>
                ),
              },
              {
                ...figureColumn<Broker>("topics", "Topics", (row) => row.topics, count),
                ...by("topics", true),
              },
              {
                ...figureColumn<Broker>("in", "In/s", (row) => row.msg_rate_in, rate),
                ...by("msg_rate_in", true),
              },
              {
                ...figureColumn<Broker>("out", "Out/s", (row) => row.msg_rate_out, rate),
                ...by("msg_rate_out", true),
              },
              {
                ...figureColumn<Broker>("bytes in", "Bytes in", (row) => row.bytes_rate_in, byteRate),
                ...by("bytes_rate_in", true),
                wide: true,
              },
              {
                ...figureColumn<Broker>("bytes out", "Bytes out", (row) => row.bytes_rate_out, byteRate),
                ...by("bytes_rate_out", true),
                wide: true,
              },
              {
                key: "unload",
                header: "Changes",
                headerHidden: true,
                cell: (row) => {
                  const ends = drains.has(row.id);
                  return (
                    <span className={styles.filters}>
                      <ActionButton
                        size="compact-xs"
                        variant="default"
                        why={lacks["load-balance"] ?? whyNot(ends ? "endDrain" : "drainBroker")}
                        aria-label={ends ? `End drain… of ${row.id}` : `Drain… ${row.id}`}
                        onClick={() => setDraining({ cluster, broker: row.id, ends })}
                      >
                        {ends ? "End drain…" : "Drain…"}
                      </ActionButton>
                      <ActionButton
                        size="compact-xs"
                        variant="default"
                        disabled={row.bundles === 0}
                        why={whyNot("unloadBroker")}
                        aria-label={`Unload… all bundles of ${row.id}`}
                        onClick={() => setUnloading(row.id)}
                      >
                        Unload…
                      </ActionButton>
                    </span>
                  );
                },
              },
            ]}
          />
        </Panel>
      )}
      {rows !== undefined && !lacks["load-balance"] && <BalancePanels found={balance} />}
      {rows !== undefined && (
        <Suspense fallback={null}>
          <ServerHistory cluster={cluster} kind="broker" ids={rows.map(({ id }) => id)} />
        </Suspense>
      )}
      {draining !== null && <Draining wanted={draining} onClose={() => setDraining(null)} />}
      {unloading !== null && (
        <Unloading whose={{ cluster, broker: unloading }} onClose={() => setUnloading(null)} />
      )}
    </Page>
  );
}
