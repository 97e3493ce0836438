import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { Cell } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { dateTime, tenths, withUnit } from "../../lib/format";
import { runStateText } from "../../shared/analyses/run-words";
import { Table } from "../../ui/grid/table";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { type Comparison, compareQuery, type Figure } from "./queries";
import { unitInLanguage } from "./run/result-words";
import { shortTitle } from "./run/run-state";

const RunResultView = lazy(() =>
  import("./run-result").then((module) => ({ default: module.RunResultView })),
);
const route = getRouteApi("/analyses/runs/$id/compare/$other");

/** Two runs of an analysis side by side: what differs in their parameters and figures, then both results. */
const SIDES = {
  display: "grid",
  gridTemplateColumns: "repeat(auto-fit, minmax(min(420px, 100%), 1fr))",
  gap: 18,
} as const;
const SIDE = { display: "grid", alignContent: "start", gap: 14, minWidth: 0 } as const;

export function ComparePage() {
  const { id, other } = route.useParams();
  const found = useQuery(compareQuery(id, other));
  const [first] = found.data?.runs ?? [];
  const title = first ? `Compared runs: ${shortTitle(first)}` : "Compared runs";
  useTitle(title);
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
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title="The runs could not be compared"
          onRetry={() => found.refetch()}
        />
      )}
      {found.isPending && <Loading label="Loading the runs" rows={6} />}
      {found.data && <Compared comparison={found.data} />}
    </Page>
  );
}

function Compared({ comparison: { runs, parameters, figures } }: { comparison: Comparison }) {
  const heads = runs.map((run, index) => `${index + 1}: ${dateTime(run.created_at)}`);
  const head = (index: number) => heads[index] ?? "";
  return (
    <>
      <Panel title="Parameters" flush>
        <Table
          caption="Parameters of both runs"
          rows={parameters}
          rowKey={({ name }) => name}
          empty={<Empty title="The runs have no parameters" />}
          columns={[
            { key: "name", header: "Parameter", cell: ({ name }) => <span className="mono">{name}</span> },
            { key: "first", header: head(0), cell: ({ values }) => <Value value={values[0]} /> },
            { key: "second", header: head(1), cell: ({ values }) => <Value value={values[1]} /> },
            {
              key: "same",
              header: "Difference",
              cell: ({ values }) => <>{textOf(values[0]) === textOf(values[1]) ? "same" : "changed"}</>,
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
            {
              key: "label",
              header: "Figure",
              grow: true,
              cell: ({ label }) => <span lang="en">{label}</span>,
            },
            {
              key: "first",
              header: head(0),
              numeric: true,
              cell: ({ values, unit }) => figureText(values[0], unit),
            },
            {
              key: "second",
              header: head(1),
              numeric: true,
              cell: ({ values, unit }) => figureText(values[1], unit),
            },
            {
              key: "change",
              header: "Changed by",
              numeric: true,
              cell: ({ ratio }) => (ratio === null ? "—" : changeText(ratio)),
            },
          ]}
        />
      </Panel>
      <div style={SIDES}>
        {runs.map((run, index) => (
          <section key={run.id} style={SIDE} aria-label={`Run ${heads[index]}`}>
            <h2 style={{ fontSize: 15 }}>
              <Link to="/analyses/runs/$id" params={{ id: run.id }}>
                {`Run ${heads[index]}`}
              </Link>
            </h2>
            {run.result ? (
              <Suspense fallback={<Loading label="Loading the plots" rows={6} />}>
                <RunResultView result={run.result} cluster={run.cluster} />
              </Suspense>
            ) : (
              <Empty title={`It has no result: ${runStateText(run.state)}`} />
            )}
          </section>
        ))}
      </div>
    </>
  );
}

const figureText = (value: unknown, unit: string) =>
  withUnit((value ?? null) as Cell, unit ? unitInLanguage(unit) : null);

/** A parameter, which may be a long query. */
function Value({ value }: { value: unknown }) {
  return <span className={styles.value}>{textOf(value)}</span>;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "—";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function changeText(ratio: number): string {
  const percent = (ratio - 1) * 100;
  return `${percent > 0 ? "+" : ""}${tenths(percent)} %`;
}
