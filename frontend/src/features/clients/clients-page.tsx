import { Button, NativeSelect } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { count, plural, rate } from "../../lib/format";
import { Freshness } from "../../shared/freshness";
import { Announce } from "../../shared/lists/list-filters";
import lists from "../../shared/lists/lists.module.css";
import { useListWindow } from "../../shared/lists/use-list-window";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import type { SortableBy } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Since } from "../../ui/since";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import {
  CLIENT_LIST,
  type Client,
  type ClientFilter,
  type ClientGroup,
  type ClientsPageAnswer,
  type Grouping,
} from "./client-queries";
import {
  choiceOf,
  clientName,
  filterOfGroup,
  GROUPINGS,
  groupName,
  KINDS,
  PROXIES,
  SORTS,
  type Sort,
  type SortOrder,
  silentText,
} from "./client-words";
import { EXACT } from "./search";

const route = getRouteApi("/c/$cluster/clients");
const NO_FILTERS = {
  ...Object.fromEntries(EXACT.map((name) => [name, undefined])),
  q: undefined,
  proxy: undefined,
  kind: undefined,
};

export function ClientsPage() {
  useTitle("Clients");
  const search = route.useSearch();
  const { cluster } = route.useParams();
  const { sort, show, by } = useOrder(SORTS, "-since");
  const { q, library, version, role, application, broker, host } = search;
  const proxy = choiceOf(PROXIES, search.proxy);
  const kind = choiceOf(KINDS, search.kind);
  const group = choiceOf(
    GROUPINGS.map(({ value }) => value),
    search.group,
  );
  const filter = useMemo(
    () => ({ cluster, q, library, version, role, application, broker, host, proxy, kind, group, sort }),
    [cluster, q, library, version, role, application, broker, host, proxy, kind, group, sort],
  );
  const list = useListWindow<Client, ClientsPageAnswer, ClientFilter>(CLIENT_LIST, filter);
  const columns = useColumns(cluster, sort, by);
  const open = useNavigate();
  const exact = EXACT.filter((name) => search[name]);
  const filtered = Boolean(q || exact.length > 0 || proxy || kind);
  const silent = list.page ? silentText(list.page) : "";

  return (
    <Page shape="wide">
      <PageHead
        title="Clients"
        badges={
          list.total !== undefined && (
            <span className={lists.total}>
              {silent && "≥ "}
              {count(list.total)}
              {list.page && list.total !== list.page.all && ` of ${count(list.page.all)}`}
            </span>
          )
        }
        freshness={list.at !== undefined && <Freshness at={list.at} />}
      />
      <search className={lists.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by address, version, application, role"
          value={q ?? ""}
          write={(value, replace) => show({ q: value || undefined }, replace)}
        />
        <FilterInput
          key={`version ${cluster} ${version ?? ""}`}
          label="Version, such as 2 for 2.x"
          value={version ?? ""}
          write={(value, replace) => show({ version: value || undefined }, replace)}
        />
        <NativeSelect
          aria-label="What is open"
          size="xs"
          value={kind ?? ""}
          data={[
            { value: "", label: "Any client" },
            { value: "producer", label: "With producers" },
            { value: "consumer", label: "With consumers" },
            { value: "neither", label: "With neither" },
          ]}
          onChange={(event) => show({ kind: event.currentTarget.value || undefined })}
        />
        <NativeSelect
          aria-label="Proxy"
          size="xs"
          value={proxy ?? ""}
          data={[
            { value: "", label: "Any way" },
            { value: "yes", label: "Through a proxy" },
            { value: "no", label: "Direct" },
          ]}
          onChange={(event) => show({ proxy: event.currentTarget.value || undefined })}
        />
        <NativeSelect
          aria-label="Count by"
          size="xs"
          value={group ?? ""}
          data={[
            { value: "", label: "Not counted by" },
            ...GROUPINGS.map(({ value, label }) => ({ value, label: `By ${label.toLowerCase()}` })),
          ]}
          onChange={(event) => show({ group: event.currentTarget.value || undefined })}
        />
        {exact
          .filter((name) => name !== "version")
          .map((name) => (
            <Button key={name} variant="light" onClick={() => show({ [name]: undefined })}>
              {name}: {search[name]} ×
            </Button>
          ))}
        {filtered && (
          <Button variant="subtle" onClick={() => show(NO_FILTERS)}>
            Clear filters
          </Button>
        )}
        <Announce total={list.total} busy={list.busy} words={(total) => plural(total, "client")} />
      </search>
      {silent !== "" && <p role="status">{silent}</p>}
      {list.error !== null && list.total === undefined ? (
        <ErrorNotice error={list.error} title="The clients could not be listed" onRetry={list.retry} />
      ) : list.total === undefined ? (
        <Loading label="Loading clients" rows={12} />
      ) : list.total === 0 ? (
        <div className={lists.none}>
          {filtered ? (
            <Empty title="No client matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty title={silent ? "No client of the brokers that answered" : "No client is connected"}>
              Applications appear here as soon as they connect.
            </Empty>
          )}
        </div>
      ) : group && list.page ? (
        <Groups by={group} of={list.page.groups} onPick={(change) => show({ ...change, group: undefined })} />
      ) : (
        <div className={lists.grid}>
          <DataGrid<Client>
            label="Clients"
            columns={columns}
            total={list.total}
            rowAt={list.rowAt}
            onRange={list.setRange}
            onOpen={(row) =>
              open({
                to: "/c/$cluster/clients/$broker/$connection",
                params: { cluster, broker: row.broker, connection: row.id },
              })
            }
            busy={list.busy}
            resetKey={JSON.stringify(filter)}
          />
        </div>
      )}
    </Page>
  );
}

/** Counts of clients that are alike, most first; a group selects its clients. */
function Groups({
  by,
  of,
  onPick,
}: {
  by: Grouping;
  of: readonly ClientGroup[];
  onPick: (filter: Partial<Record<Grouping, string>>) => void;
}) {
  const title = GROUPINGS.find(({ value }) => value === by)?.label ?? by;
  return (
    <Panel title={`Clients by ${title.toLowerCase()}`} note={count(of.length)} flush>
      <Table<ClientGroup>
        caption={`Clients by ${title.toLowerCase()}`}
        rows={[...of]}
        maxHeight={4000}
        rowKey={groupName}
        empty={<Empty title="None" />}
        columns={[
          {
            key: "value",
            header: title,
            cell: (row) => {
              const filter = filterOfGroup(by, row);
              return filter ? (
                <Button variant="transparent" px={0} size="compact-sm" onClick={() => onPick(filter)}>
                  {groupName(row)}
                </Button>
              ) : (
                groupName(row)
              );
            },
          },
          { key: "connections", header: "Clients", numeric: true, cell: (row) => count(row.connections) },
          { key: "producers", header: "Producers", numeric: true, cell: (row) => count(row.producers) },
          { key: "consumers", header: "Consumers", numeric: true, cell: (row) => count(row.consumers) },
        ]}
      />
    </Panel>
  );
}

const ARROW_PX = 18; // beside the header of the sorted column

function useColumns(cluster: string, sort: SortOrder, by: SortableBy<Sort>): GridColumn<Client>[] {
  return useMemo(() => {
    const sorted = sort.replace(/^-/, "");
    const sortable = (key: Sort, header: string, descending: boolean, min: number) => ({
      key,
      header,
      ...by(key, descending),
      always: key === sorted,
      min: key === sorted ? min + ARROW_PX : min,
    });
    const number = (key: "producers" | "consumers", header: string): GridColumn<Client> => ({
      ...sortable(key, header, true, 92),
      numeric: true,
      cell: (row) => <span className={row[key] === 0 ? lists.zero : undefined}>{count(row[key])}</span>,
    });
    const rates = (key: "msg_rate_in" | "msg_rate_out", header: string): GridColumn<Client> => ({
      ...sortable(key, header, true, 66),
      numeric: true,
      cell: (row) => <span className={row[key] === 0 ? lists.zero : undefined}>{rate(row[key])}</span>,
    });
    return [
      {
        ...sortable("address", "Address", false, 150),
        grow: 2,
        always: true,
        cell: (row, hasOwnLine) => (
          <PathLink
            key={row.id}
            path={`/c/${encodeURIComponent(cluster)}/clients/${encodeURIComponent(row.broker)}/${row.id}`}
            className="topic-link"
            title={row.address}
            tabIndex={-1}
          >
            {row.address}
            {hasOwnLine && <span className="topic-scope"> {clientName(row)}</span>}
          </PathLink>
        ),
      },
      {
        ...sortable("version", "Library", false, 150),
        grow: 1,
        cell: (row) => <span title={row.sent}>{clientName(row)}</span>,
      },
      {
        ...sortable("application", "Application", false, 120),
        grow: 1,
        cell: (row) => row.application || "—",
      },
      { ...sortable("role", "Role", false, 96), cell: (row) => row.role ?? "—" },
      { key: "proxy", header: "Proxy", min: 72, cell: (row) => (row.proxy === null ? "—" : row.proxy) },
      number("producers", "Producers"),
      number("consumers", "Consumers"),
      rates("msg_rate_in", "In/s"),
      rates("msg_rate_out", "Out/s"),
      { ...sortable("since", "Since", true, 110), numeric: true, cell: (row) => <Since at={row.since} /> },
      { ...sortable("broker", "Broker", false, 120), cell: (row) => row.broker },
    ];
  }, [cluster, sort, by]);
}
