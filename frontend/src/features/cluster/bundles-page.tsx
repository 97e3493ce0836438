import { Button, NativeSelect } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { byteRate, count, known, plural, rate } from "../../lib/format";
import { useMayRead } from "../../shared/access/may";
import { BacklogFigure } from "../../shared/backlog/backlog-figures";
import { Figure } from "../../shared/figure";
import { Unloading } from "../../shared/unloading/unloading";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import type { SortableBy } from "../../ui/grid/sorting";
import { useOrder } from "../../ui/grid/use-order";
import { Page } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { balanceQuery } from "./balance/balance-queries";
import styles from "./cluster.module.css";
import { ClusterHead, State } from "./cluster-head";
import { type Bundle, brokersQuery } from "./queries";
import { BUNDLE_SORTS, type BundleSort, nameOfBundle, parseBundle, shareOf } from "./search";
import { useBundleWindow } from "./use-bundle-window";

const route = getRouteApi("/c/$cluster/bundles");
const BundleDialog = lazy(() =>
  import("./bundle-dialog").then((module) => ({ default: module.BundleDialog })),
);

export function BundlesPage() {
  const { cluster } = route.useParams();
  const { q, broker, change } = route.useSearch();
  const { sort, show, by } = useOrder(BUNDLE_SORTS, "bundle");
  const client = useQueryClient();
  const filter = useMemo(() => ({ cluster, q, broker, sort }), [cluster, q, broker, sort]);
  const list = useBundleWindow(filter);
  const mayPick = useMayRead(cluster, "listBrokers");
  const brokers = useQuery({ ...brokersQuery(cluster), enabled: mayPick });
  const balance = useQuery({ ...balanceQuery(cluster), enabled: mayPick });
  const overloaded = balance.data?.not_split ?? [];
  const open = useCallback((row: Bundle) => show({ change: nameOfBundle(row) }), [show]);
  const columns = useColumns(by, open);
  const opened = parseBundle(change);
  const [unloading, setUnloading] = useState("");
  return (
    <Page shape="wide">
      <ClusterHead title="Bundles" at={list.at} failed={list.isError} />
      <search className={styles.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Words of namespace or range"
          value={q ?? ""}
          write={(value, replace) => show({ q: value }, replace)}
        />
        {mayPick && (
          <OwnerPicker
            value={broker ?? ""}
            ids={brokers.data?.rows.map(({ id }) => id) ?? []}
            onPick={(id) => show({ broker: id })}
          />
        )}
        <output className={styles.dim} aria-live="polite">
          {list.total !== undefined && plural(list.total, "bundle")}
        </output>
        {/* Of all that the broker owns: not beside a list of some of them. */}
        {broker && !q && (
          <Button size="compact-xs" variant="default" onClick={() => setUnloading(broker)}>
            Unload all its bundles…
          </Button>
        )}
        {overloaded.length > 0 && <Overloaded of={overloaded} />}
      </search>
      {list.total === undefined ? (
        list.error !== null ? (
          <ErrorNotice error={list.error} title="The bundles could not be listed" onRetry={list.retry} />
        ) : (
          <Loading label="Loading bundles" rows={12} />
        )
      ) : list.total === 0 ? (
        q || broker ? (
          <Empty title="No bundle matches">Clear or loosen the filters.</Empty>
        ) : (
          <Empty title="No bundle that you may see" />
        )
      ) : (
        <div className={styles.grid}>
          {list.error !== null && (
            <ErrorNotice error={list.error} title="Some rows could not be read" onRetry={list.retry} />
          )}
          <DataGrid<Bundle>
            label="Bundles"
            columns={columns}
            total={list.total}
            rowAt={list.rowAt}
            onRange={list.setRange}
            onOpen={open}
            busy={list.busy}
            resetKey={JSON.stringify(filter)}
          />
        </div>
      )}
      {unloading !== "" && (
        <Unloading whose={{ cluster, broker: unloading }} onClose={() => setUnloading("")} />
      )}
      {opened && (
        <Suspense fallback={null}>
          <BundleDialog
            id={{ cluster, ...opened }}
            onChanged={() => client.invalidateQueries({ queryKey: ["cluster", cluster] })}
            onClose={() => show({ change: "" }, true)}
          />
        </Suspense>
      )}
    </Page>
  );
}

const OVERLOADED_MAX = 3;

/** The bundles that are too busy and are not split, with the hot topic where a split does not help. */
function Overloaded({ of }: { of: { subject: string; reason: string }[] }) {
  const more = of.length - OVERLOADED_MAX;
  return (
    <Notice tone="warning">
      {of.slice(0, OVERLOADED_MAX).map(({ subject, reason }) => (
        <p key={subject}>
          <span className="mono">{subject}</span> is overloaded: <span lang="en">{reason}</span>.
        </p>
      ))}
      {more > 0 && <p>and {plural(more, "more", "more")}, on the page of brokers</p>}
    </Notice>
  );
}

function useColumns(by: SortableBy<BundleSort>, open: (row: Bundle) => void): GridColumn<Bundle>[] {
  return useMemo(() => {
    const sortable = (key: BundleSort, header: string, descending: boolean) => ({
      key,
      header,
      ...by(key, descending),
    });
    const number = (
      key: Exclude<BundleSort, "bundle" | "owner">,
      header: string,
      min: number,
      text: (value: number) => string,
    ): GridColumn<Bundle> => ({
      ...sortable(key, header, true),
      min,
      numeric: true,
      cell: (row) => <Figure of={row} value={row[key]} text={text} />,
    });
    return [
      {
        ...sortable("bundle", "Bundle", false),
        min: 300,
        grow: 3,
        cell: (row) => (
          <span
            className={styles.name}
            title={`${known(shareOf(row.bundle) * 100, rate)} % of the namespace's hashes`}
          >
            <span>
              {row.tenant}/{row.namespace}
            </span>
            <span className={`mono ${styles.range}`}>{row.bundle}</span>
          </span>
        ),
      },
      {
        ...sortable("owner", "Owner", false),
        min: 150,
        grow: 1.4,
        always: true,
        cell: (row) => (row.owner ? <Owner row={row} /> : <span className={styles.dim}>no broker</span>),
      },
      { ...number("topics", "Topics", 78, count), always: true },
      number("msg_rate_in", "In/s", 72, rate),
      number("msg_rate_out", "Out/s", 72, rate),
      number("bytes_rate_in", "Bytes in", 96, byteRate),
      number("bytes_rate_out", "Bytes out", 96, byteRate),
      { ...number("backlog", "Backlog", 168, count), narrow: 88, cell: (row) => <BacklogFigure of={row} /> },
      {
        key: "change",
        header: "",
        min: 108,
        narrow: 108,
        always: true,
        cell: (row) => (
          <Button
            size="compact-xs"
            variant="default"
            tabIndex={-1}
            aria-label={`Change ${nameOfBundle(row)}`}
            onClick={() => open(row)}
          >
            Change…
          </Button>
        ),
      },
    ];
  }, [by, open]);
}

/** Selects the owner of the listed bundles; also a broker that no longer exists. */
function OwnerPicker({
  value,
  ids,
  onPick,
}: {
  value: string;
  ids: readonly string[];
  onPick: (id: string) => void;
}) {
  const all = value && !ids.includes(value) ? [value, ...ids] : ids;
  return (
    <NativeSelect
      aria-label="Owner"
      size="xs"
      value={value}
      data={[{ value: "", label: "Any owner" }, ...all.map((id) => ({ value: id, label: id }))]}
      onChange={(event) => onPick(event.currentTarget.value)}
    />
  );
}

function Owner({ row }: { row: Bundle }) {
  return (
    <span className={styles.name}>
      <span className="mono" title={row.owner}>
        {row.owner}
      </span>
      {row.state !== "up" && <State text={row.state} />}
    </span>
  );
}
