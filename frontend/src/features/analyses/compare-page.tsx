import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { Run } from "../../api/types";
import { dateTime, withUnit } from "../../lib/format";
import { Table } from "../../ui/grid/table";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { comparedFigures, comparedParameters, type Figure, type Pair } from "./compared-runs";
import { runQuery } from "./queries";

const RunResultView = lazy(() =>
  import("./run-result").then((module) => ({ default: module.RunResultView })),
);
const route = getRouteApi("/analyses/runs/$id/compare/$other");

/** Two runs of an analysis side by side: what differs in their parameters and figures, then both results. */
export function ComparePage() {
  const { id, other } = route.useParams();
  const first = useQuery(runQuery(id));
  const second = useQuery(runQuery(other));
  const title = first.data ? `${first.data.title || first.data.analysis}, compared` : "Compared runs";
  useTitle(title);
  const failed = [first, second].find(({ error }) => error);
  return (
    <Page>
      <PageHead
        crumbs={
          <>
            <Crumb>
              <Link to="/analyses">Analyses</Link>
            </Crumb>
            <Crumb>
              <Link to="/analyses/runs/$id" params={{ id }}>
                Run
              </Link>
            </Crumb>
          </>
        }
        title={title}
      />
      {failed && (
        <ErrorNotice error={failed.error} title="A run could not be read" onRetry={() => failed.refetch()} />
      )}
      {first.data && second.data ? (
        <Compared runs={[first.data, second.data]} />
      ) : (
        !failed && <Loading label="Loading the runs" rows={6} />
      )}
    </Page>
  );
}

function Compared({ runs }: { runs: Pair<Run> }) {
  const [first, second] = runs;
  if (first.analysis !== second.analysis)
    return (
      <Empty title="These are runs of different analyses">
        Only runs of one analysis have the same figures.
      </Empty>
    );
  const heads = runs.map(
    (run, index) => `${index + 1}: ${dateTime(run.created_at)}`,
  ) as unknown as Pair<string>;
  const figures = first.result && second.result ? comparedFigures(first.result, second.result) : [];
  return (
    <>
      <Panel title="Parameters" flush>
        <Table
          caption="Parameters of both runs"
          rows={comparedParameters(first.parameters, second.parameters)}
          rowKey={({ name }) => name}
          empty={<Empty title="The runs have no parameters" />}
          columns={[
            { key: "name", header: "Parameter", cell: ({ name }) => <span className="mono">{name}</span> },
            { key: "first", header: heads[0], grow: true, cell: ({ values }) => values[0] },
            { key: "second", header: heads[1], grow: true, cell: ({ values }) => values[1] },
            {
              key: "same",
              header: "Difference",
              cell: ({ values }) => (values[0] === values[1] ? "same" : "changed"),
            },
          ]}
        />
      </Panel>
      <Panel title="Figures" flush>
        <Table<Figure>
          caption="Figures of both runs"
          rows={figures}
          rowKey={({ key }) => key}
          empty={<Empty title="A run without a result has no figures" />}
          columns={[
            { key: "label", header: "Figure", grow: true, cell: ({ label }) => label },
            {
              key: "first",
              header: heads[0],
              numeric: true,
              cell: ({ values, unit }) => withUnit(values[0], unit),
            },
            {
              key: "second",
              header: heads[1],
              numeric: true,
              cell: ({ values, unit }) => withUnit(values[1], unit),
            },
            {
              key: "change",
              header: "Change",
              numeric: true,
              cell: ({ change }) =>
                change === null ? "—" : `${change > 0 ? "+" : ""}${change.toFixed(1)} %`,
            },
          ]}
        />
      </Panel>
      <div className={styles.sides}>
        {runs.map((run, index) => (
          <section key={run.id} aria-label={`Run ${heads[index]}`}>
            <h2>
              <Link to="/analyses/runs/$id" params={{ id: run.id }}>
                {`Run ${heads[index]}`}
              </Link>
            </h2>
            {run.result ? (
              <Suspense fallback={<Loading label="Loading the plots" rows={6} />}>
                <RunResultView result={run.result} />
              </Suspense>
            ) : (
              <Empty title={`It has no result: ${run.state}`} />
            )}
          </section>
        ))}
      </div>
    </>
  );
}
