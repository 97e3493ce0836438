import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { failureOf } from "../../lib/errors";
import { bytes, count, time } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { AnalyseLink } from "../../shared/analyses/analyse-link";
import { figureColumn } from "../../shared/figure";
import { useLacks } from "../../shared/lacking/lacking";
import { NotHere } from "../../shared/lacking/not-here";
import { toneOfRoom, usedOf, whyReadOnly } from "../../shared/storage/room";
import { ActionButton } from "../../ui/action-button";
import { Meter } from "../../ui/charts/meter";
import { sortedRows } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import styles from "./cluster.module.css";
import { ClusterHead, State } from "./cluster-head";
import { type Bookie, bookiesQuery } from "./queries";
import { hasRegions, regionOf } from "./racks/regions";
import type { RepairChange } from "./repair/repair-queries";

const route = getRouteApi("/c/$cluster/bookies");
const RackDialog = lazy(() =>
  import("./racks/rack-dialog").then((module) => ({ default: module.RackDialog })),
);
const RegionTable = lazy(() =>
  import("./racks/region-table").then((module) => ({ default: module.RegionTable })),
);
const RepairPanel = lazy(() => import("./repair-panel").then((module) => ({ default: module.RepairPanel })));
const RepairDialog = lazy(() =>
  import("./repair/repair-dialog").then((module) => ({ default: module.RepairDialog })),
);
const LossDialog = lazy(() =>
  import("./repair/loss-dialog").then((module) => ({ default: module.LossDialog })),
);
const ServerHistory = lazy(() =>
  import("./history/server-history").then((module) => ({ default: module.ServerHistory })),
);
const HEIGHT_PX = 560;
const SORTS = ["id", "state", "rack", "used", "free_bytes", "total_bytes", "ledgers"] as const;

/** The figure of a bookie that rows are sorted by; of its rack the region first. */
function figureOf(row: Bookie, field: (typeof SORTS)[number]): string | number | null {
  switch (field) {
    case "rack":
      return `${regionOf(row)} ${row.rack}`;
    case "used":
      return usedOf(row)?.bytes ?? null;
    default:
      return row[field];
  }
}

export function BookiesPage() {
  const { cluster } = route.useParams();
  const { rack, loss } = route.useSearch();
  const [change, setChange] = useState<RepairChange>();
  const navigate = useNavigate({ from: "/c/$cluster/bookies" });
  const client = useQueryClient();
  const found = useQuery(bookiesQuery(cluster));
  const whyNot = useWhyNot(cluster, {});
  const lacks = useLacks();
  const rows = found.data?.rows;
  const placement = found.data?.placement ?? null;
  const isByRegion = rows !== undefined && hasRegions(rows, placement);
  const { sort, by } = useOrder(SORTS, isByRegion ? "rack" : "id");
  const listed = rows && sortedRows(rows, sort, figureOf);
  const opened = rows?.find(({ id }) => id === rack);
  return (
    <Page>
      <ClusterHead title="Bookies" at={found.dataUpdatedAt} failed={found.isError} />
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={rows ? "The bookies could not be read again" : "The bookies could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {lacks["bookie-states"] && <NotHere why={lacks["bookie-states"]} />}
      {isByRegion && (
        <Suspense fallback={null}>
          <RegionTable bookies={rows} placement={placement} />
        </Suspense>
      )}
      {listed === undefined ? (
        found.isPending && <Loading label="Loading bookies" rows={6} />
      ) : (
        <Panel
          title="Bookies"
          note={count(listed.length)}
          flush
          actions={
            <AnalyseLink place={{}} analysis="disk-not-freed">
              Why is the disk not freed?
            </AnalyseLink>
          }
        >
          <Table<Bookie>
            caption="Bookies"
            rows={listed}
            maxHeight={HEIGHT_PX}
            rowKey={(row) => row.id}
            empty={<Empty title="No bookie is registered">Nothing can be stored until one starts.</Empty>}
            columns={[
              {
                ...by("id"),
                key: "id",
                header: "Bookie",
                cell: (row) => (
                  <span className={styles.address}>
                    <span className="mono">{row.id}</span>
                    {row.address !== row.id && <small>{row.address || "address not known"}</small>}
                  </span>
                ),
              },
              {
                ...by("state"),
                key: "state",
                header: "State",
                cell: (row) => (
                  <span className={styles.address}>
                    <State text={row.state} since={row.since} />
                    {whyReadOnly(row) && (
                      <small className={styles.why}>
                        since {time(row.since)} · {whyReadOnly(row)}
                      </small>
                    )}
                  </span>
                ),
              },
              {
                ...by("rack"),
                key: "rack",
                header: "Rack",
                wide: true,
                cell: (row) =>
                  row.rack ? (
                    <span title={`group ${row.group}`}>{row.rack}</span>
                  ) : (
                    <span className={styles.dim}>not set</span>
                  ),
              },
              {
                key: "share",
                header: "Share of the disk in use",
                headerHidden: true,
                wide: true,
                cell: (row) => <Used row={row} />,
              },
              {
                ...figureColumn<Bookie>("used", "Disk used", (row) => usedOf(row)?.bytes ?? null, bytes),
                ...by("used", true),
                wide: true,
              },
              {
                ...figureColumn<Bookie>("free", "Disk free", (row) => row.free_bytes, bytes),
                ...by("free_bytes", true),
              },
              {
                ...figureColumn<Bookie>("total", "Disk", (row) => row.total_bytes, bytes),
                ...by("total_bytes", true),
                wide: true,
              },
              {
                ...figureColumn<Bookie>("ledgers", "Ledgers", (row) => row.ledgers, count),
                ...by("ledgers", true),
                wide: true,
              },
              {
                key: "change",
                header: "Change",
                headerHidden: true,
                cell: (row) => (
                  <span className={styles.address} style={{ gap: 4 }}>
                    <ActionButton
                      size="compact-xs"
                      variant="default"
                      why={lacks.racks ?? whyNot("changeRack")}
                      aria-label={`Rack… ${row.id}`}
                      onClick={() => navigate({ search: (before) => ({ ...before, rack: row.id }) })}
                    >
                      Rack…
                    </ActionButton>
                    <ActionButton
                      size="compact-xs"
                      variant="default"
                      why={lacks.repair ?? null}
                      aria-label={`If it died… ${row.id}`}
                      onClick={() => navigate({ search: (before) => ({ ...before, loss: row.id }) })}
                    >
                      If it died…
                    </ActionButton>
                    {row.state !== "down" && (
                      <ActionButton
                        size="compact-xs"
                        variant="default"
                        why={lacks.repair ?? whyNot("decommissionBookie")}
                        aria-label={`Drain… ${row.id}`}
                        onClick={() => setChange({ kind: "decommission", bookie: row.id })}
                      >
                        Drain…
                      </ActionButton>
                    )}
                  </span>
                ),
              },
            ]}
          />
        </Panel>
      )}
      {rows !== undefined && !lacks["bookie-states"] && (
        <Suspense fallback={null}>
          <ServerHistory cluster={cluster} kind="bookie" ids={rows.map(({ id }) => id)} />
        </Suspense>
      )}
      <Suspense fallback={null}>
        {lacks.repair === undefined && <RepairPanel cluster={cluster} whyNot={whyNot} onChange={setChange} />}
        {loss !== undefined && (
          <LossDialog
            key={loss}
            cluster={cluster}
            bookie={loss}
            onClose={() => navigate({ search: ({ rack: _, loss: __, ...rest }) => rest, replace: true })}
          />
        )}
        {change && <RepairDialog cluster={cluster} asked={change} onClose={() => setChange(undefined)} />}
      </Suspense>
      {opened && (
        <Suspense fallback={null}>
          <RackDialog
            key={opened.id}
            cluster={cluster}
            bookie={opened}
            onChanged={() => client.invalidateQueries({ queryKey: ["cluster", cluster, "bookies"] })}
            onClose={() => navigate({ search: ({ rack: _, loss: __, ...rest }) => rest, replace: true })}
          />
        </Suspense>
      )}
    </Page>
  );
}

function Used({ row }: { row: Bookie }) {
  const used = usedOf(row);
  if (used === null) return null;
  const limit = row.usage_limit;
  return (
    <span title={limit === null ? undefined : `read-only from ${Math.round(limit * 100)} % on`}>
      <Meter share={used.share} tone={toneOfRoom(row, used.share)} mark={limit ?? undefined} />
    </span>
  );
}
