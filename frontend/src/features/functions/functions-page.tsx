import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, known, rate } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { Freshness } from "../../shared/freshness";
import { Announce } from "../../shared/lists/list-filters";
import lists from "../../shared/lists/lists.module.css";
import { TopicLink } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { FilterInput } from "../../ui/filter-input";
import { Table } from "../../ui/grid/table";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { type FunctionRow, functionsQuery, ROWS_MAX } from "./model/function-queries";
import { COMPONENTS, componentOf, fullName, millis, runningText, toneOf } from "./model/function-words";
import { TopologyPanel } from "./topology";

const route = getRouteApi("/c/$cluster/functions");
const HEIGHT_PX = 560;

export function FunctionsPage() {
  useTitle("Functions");
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/c/$cluster/functions" });
  const component = componentOf(search.component);
  const found = useQuery(functionsQuery(cluster, { q: search.q, component }));
  const answer = found.data;
  const isFiltered = Boolean(search.q || component);
  const show = (change: { q?: string | undefined; component?: string | undefined }, replace = false) =>
    navigate({ search: (before) => ({ ...before, ...change }), replace });
  return (
    <Page>
      <PageHead
        title="Functions"
        badges={answer && <span className={lists.total}>{count(answer.total)}</span>}
        freshness={answer && <Freshness at={answer.at} />}
        actions={
          answer?.enabled && (
            <Link to="/c/$cluster/functions/new" params={{ cluster }}>
              Deploy …
            </Link>
          )
        }
      />
      <search className={lists.filters}>
        <FilterInput
          key={`q ${cluster}`}
          label="Filter by name, class, topic"
          value={search.q ?? ""}
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
        <Announce total={answer?.total} busy={found.isPlaceholderData} one="function" />
      </search>
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title={answer ? "The functions could not be read again" : "The functions could not be read"}
          onRetry={() => found.refetch()}
        />
      )}
      {answer === undefined ? (
        found.isPending && <Loading label="Loading functions" rows={8} />
      ) : answer.enabled ? (
        <>
          <Listed rows={answer.rows} total={answer.total} isFiltered={isFiltered} cluster={cluster} />
          {answer.rows.length > 0 && <TopologyPanel cluster={cluster} rows={answer.rows} />}
        </>
      ) : (
        <Empty title="The cluster has no functions worker">
          Start one with magnetar, or python -m engine functions-worker: it runs functions, sources and sinks.
        </Empty>
      )}
    </Page>
  );
}

function Listed({
  rows,
  total,
  isFiltered,
  cluster,
}: {
  rows: readonly FunctionRow[];
  total: number;
  isFiltered: boolean;
  cluster: string;
}) {
  return (
    <Panel
      title="Functions, sources and sinks"
      note={total > rows.length ? `the first ${ROWS_MAX} of ${count(total)}` : count(total)}
      flush
    >
      <Table<FunctionRow>
        caption="Functions, sources and sinks"
        rows={rows}
        maxHeight={HEIGHT_PX}
        rowKey={(row) => `${row.component} ${fullName(row)}`}
        empty={
          isFiltered ? (
            <Empty title="Nothing matches">Clear or loosen the filters.</Empty>
          ) : (
            <Empty title="Nothing is deployed">
              A function is Python that runs beside its topics; a source or sink connects a topic with another
              system.
            </Empty>
          )
        }
        columns={[
          {
            key: "name",
            header: "Name",
            grow: true,
            cell: ({ component, tenant, namespace, name }) => (
              <>
                <Link
                  to="/c/$cluster/functions/$component/$tenant/$namespace/$name"
                  params={{ cluster, component, tenant, namespace, name }}
                >
                  {name}
                </Link>{" "}
                <small>
                  {tenant}/{namespace}
                </small>
              </>
            ),
          },
          {
            key: "component",
            header: "Kind",
            cell: (row) => (row.connector ? `${row.component}, ${row.connector}` : row.component),
          },
          {
            key: "state",
            header: "State",
            cell: (row) => (
              <Badge tone={toneOf(row)} dot>
                {row.state}
              </Badge>
            ),
          },
          {
            key: "instances",
            header: "Instances",
            numeric: true,
            cell: runningText,
          },
          { key: "in", header: "In", numeric: true, cell: (row) => perSecond(row.received_rate) },
          { key: "done", header: "Done", numeric: true, cell: (row) => perSecond(row.processed_rate) },
          {
            key: "failures",
            header: "Exceptions/min",
            numeric: true,
            cell: (row) => known(row.failures, count),
          },
          { key: "latency", header: "Latency", numeric: true, cell: (row) => millis(row.latency_ms) },
          { key: "topics", header: "Topics", wide: true, cell: (row) => <Topics of={row} /> },
        ]}
      />
    </Panel>
  );
}

const perSecond = (value: number | null) => (value === null ? "—" : `${rate(value)}/s`);
const NAMED_MAX = 3;

function Topics({ of: { inputs, output } }: { of: FunctionRow }) {
  return (
    <>
      {inputs.slice(0, NAMED_MAX).map((name) => (
        <div key={name}>
          <small>from</small> <TopicName of={name} />
        </div>
      ))}
      {inputs.length > NAMED_MAX && <small>and {count(inputs.length - NAMED_MAX)} more</small>}
      {output && (
        <div>
          <small>to</small> <TopicName of={output} />
        </div>
      )}
    </>
  );
}

/** A topic, or a pattern of topics. */
export function TopicName({ of }: { of: string }) {
  const topic = parseTopicName(of);
  return topic === null ? <span className="mono">{of}</span> : <TopicLink topic={topic} />;
}
