import { Button, NativeSelect } from "@mantine/core";
import { createLink, getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { count, known, plural, rate } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { Freshness } from "../../shared/freshness";
import { Announce } from "../../shared/lists/list-filters";
import lists from "../../shared/lists/lists.module.css";
import { useListWindow } from "../../shared/lists/use-list-window";
import { TopicLink } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { FilterInput } from "../../ui/filter-input";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import type { SortableBy } from "../../ui/grid/sorting";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import {
  FUNCTION_LIST,
  type FunctionFilter,
  type FunctionRow,
  type FunctionsAnswer,
} from "./model/function-queries";
import {
  COMPONENTS,
  componentOf,
  DEFAULT_SORT,
  fullName,
  millis,
  nounOf,
  runningText,
  SORTS,
  type Sort,
  type SortOrder,
  stateText,
  toneOf,
} from "./model/function-words";
import { functionPath } from "./model/places";
import { TopologyPanel } from "./topology";

const route = getRouteApi("/c/$cluster/functions");
const HEIGHT_PX = 560;
const ARROW_PX = 18; // beside the header of the sorted column
const ButtonLink = createLink(Button<"a">);

export function FunctionsPage() {
  useTitle("Functions");
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const { q } = search;
  const component = componentOf(search.component);
  const { sort, show, by } = useOrder(SORTS, DEFAULT_SORT);
  const filter = useMemo(() => ({ cluster, q, component, sort }), [cluster, q, component, sort]);
  const list = useListWindow<FunctionRow, FunctionsAnswer, FunctionFilter>(FUNCTION_LIST, filter);
  const answer = list.page;
  const isFiltered = Boolean(q || component);
  const columns = useColumns(cluster, sort, by);
  const open = useNavigate();
  return (
    <Page>
      <PageHead
        title="Functions"
        badges={answer && <span className={lists.total}>{count(answer.total)}</span>}
        freshness={answer && <Freshness at={answer.at} />}
        actions={
          answer?.enabled && (
            <ButtonLink component="a" to="/c/$cluster/functions/new" params={{ cluster }}>
              Deploy …
            </ButtonLink>
          )
        }
      />
      <search className={lists.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by name, class, topic"
          value={q ?? ""}
          write={(value, replace) => show({ q: value || undefined }, replace)}
        />
        <NativeSelect
          aria-label="Kind"
          size="xs"
          value={component ?? ""}
          data={[{ value: "", label: "Of any kind" }, ...COMPONENTS]}
          onChange={(event) => show({ component: event.currentTarget.value || undefined })}
        />
        {isFiltered && (
          <Button variant="subtle" onClick={() => show({ q: undefined, component: undefined })}>
            Clear filters
          </Button>
        )}
        <Announce total={answer?.total} busy={list.busy} words={(total) => plural(total, "function")} />
      </search>
      {list.error !== null && (
        <ErrorNotice
          error={list.error}
          title={answer ? "The functions could not be read again" : "The functions could not be read"}
          onRetry={list.retry}
        />
      )}
      {answer === undefined ? (
        list.error === null && <Loading label="Loading functions" rows={8} />
      ) : !answer.enabled ? (
        <Empty title="The cluster has no functions worker">
          Start one with magnetar, or python -m engine functions-worker: it runs functions, sources and sinks.
        </Empty>
      ) : answer.total === 0 ? (
        <div className={lists.none}>
          {isFiltered ? (
            <Empty title="Nothing matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty title="Nothing is deployed">
              A function is Python that runs beside its topics; a source or sink connects a topic with another
              system.
            </Empty>
          )}
        </div>
      ) : (
        <>
          <DataGrid<FunctionRow>
            label="Functions, sources and sinks"
            columns={columns}
            total={answer.total}
            rowAt={list.rowAt}
            onRange={list.setRange}
            onOpen={({ component, tenant, namespace, name }) =>
              open({
                to: "/c/$cluster/functions/$component/$tenant/$namespace/$name",
                params: { cluster, component, tenant, namespace, name },
              })
            }
            busy={list.busy}
            resetKey={JSON.stringify(filter)}
            maxHeight={HEIGHT_PX}
          />
          <TopologyPanel cluster={cluster} rows={answer.rows} />
        </>
      )}
    </Page>
  );
}

function useColumns(cluster: string, sort: SortOrder, by: SortableBy<Sort>): GridColumn<FunctionRow>[] {
  return useMemo(() => {
    const sorted = sort.replace(/^-/, "");
    const sortable = (key: Sort, header: string, descending: boolean, min: number) => ({
      key,
      header,
      ...by(key, descending),
      always: key === sorted,
      min: key === sorted ? min + ARROW_PX : min,
      numeric: descending,
    });
    return [
      {
        ...sortable("name", "Name", false, 200),
        grow: 2,
        always: true,
        cell: (row) => (
          <PathLink
            key={fullName(row)}
            path={functionPath({ cluster, ...row })}
            className="topic-link"
            title={fullName(row)}
            tabIndex={-1}
          >
            <span className="topic-scope">
              {row.tenant}/{row.namespace}/
            </span>
            {row.name}
          </PathLink>
        ),
      },
      {
        ...sortable("state", "State", false, 116),
        always: true,
        cell: (row) => (
          <Badge tone={toneOf(row)} dot>
            {stateText(row.state)}
          </Badge>
        ),
      },
      {
        ...sortable("component", "Kind", false, 90),
        cell: (row) => (row.connector ? `${nounOf(row.component)}, ${row.connector}` : nounOf(row.component)),
      },
      {
        ...sortable("instances", "Instances", true, 92),
        cell: runningText,
      },
      { ...sortable("received_rate", "In", true, 72), cell: (row) => perSecond(row.received_rate) },
      { ...sortable("processed_rate", "Done", true, 72), cell: (row) => perSecond(row.processed_rate) },
      {
        ...sortable("failures", "Exceptions / min", true, 118),
        cell: (row) => known(row.failures, count),
      },
      { ...sortable("latency_ms", "Latency", true, 84), cell: (row) => millis(row.latency_ms) },
      { key: "topics", header: "Topics", min: 240, grow: 2, cell: (row) => <Topics of={row} /> },
    ];
  }, [cluster, sort, by]);
}

const perSecond = (value: number | null) => (value === null ? "—" : `${rate(value)}/s`);

/** The first input, how many more there are, and the output, on one line. */
function Topics({ of: { inputs, output } }: { of: FunctionRow }) {
  const [first, ...more] = inputs;
  return (
    <span title={[...inputs, ...(output ? [`→ ${output}`] : [])].join("\n")}>
      {first && <TopicName of={first} tabIndex={-1} />}
      {more.length > 0 && (
        <>
          {" "}
          <small>{`and ${count(more.length)} more`}</small>
        </>
      )}
      {output && (
        <>
          {" "}
          <small>→</small> <TopicName of={output} tabIndex={-1} />
        </>
      )}
    </span>
  );
}

/** A topic, or a pattern of topics. */
export function TopicName({ of, tabIndex }: { of: string; tabIndex?: number }) {
  const topic = parseTopicName(of);
  if (topic === null) return <span className="mono">{of}</span>;
  return <TopicLink topic={topic} {...(tabIndex !== undefined && { tabIndex })} />;
}
