import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import type { Analysis, Run } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { count, duration } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { LANGUAGE } from "../../lib/words";
import {
  analysesQuery,
  givenAt,
  grouped,
  type Kind,
  kindOf,
  nameOf,
  nounOf,
  type Place,
} from "../../shared/analyses/catalogue";
import { RUN_STATES, runStateText } from "../../shared/analyses/run-words";
import { Badge } from "../../ui/badge";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Ago } from "../../ui/since";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { RUN_SORTS, RUNS_PER_PAGE, runsQuery } from "./queries";
import { elapsedOf, shareOf, shortTitle, toneOfRun } from "./run/run-state";
import { Schedules } from "./schedules";
import { SparkOffer } from "./spark-offer";
import { TargetName } from "./target";

const route = getRouteApi("/analyses");

export function AnalysesPage() {
  useTitle("Analyses");
  const { analysis, state, page: _, sort: __, ...place } = route.useSearch();
  const catalogue = useQuery(analysesQuery);
  const kind = kindOf(place);
  return (
    <Page>
      <PageHead title="Analyses">
        {kind !== "cluster" && (
          <p className={styles.scope}>
            For {nounOf(kind)} <TargetName kind={kind} name={nameOf(place)} />
            {place.subscription && <>, subscription {place.subscription}</>}
            <Link to="/analyses" className={styles.clear}>
              Show all analyses
            </Link>
          </p>
        )}
      </PageHead>
      {failureOf(catalogue) && (
        <ErrorNotice
          error={catalogue.error}
          title="The catalogue could not be read"
          onRetry={() => catalogue.refetch()}
        />
      )}
      <SparkOffer />
      {catalogue.isPending && <Loading label="Loading the catalogue" rows={3} />}
      {catalogue.data && <Catalogue analyses={catalogue.data} place={place} />}
      {!catalogue.isPending && <Schedules />}
      <History target={nameOf(place) || undefined} analysis={analysis} named={state} />
    </Page>
  );
}

function Catalogue({ analyses, place }: { analyses: Analysis[]; place: Place }) {
  const kind = kindOf(place);
  const groups = grouped(analyses, kind === "cluster" ? null : kind);
  if (groups.length === 0)
    return (
      <Panel title="Catalogue">
        <Empty
          title={
            analyses.length === 0 ? "No analysis is installed" : `No analysis can read a ${nounOf(kind)}`
          }
        />
      </Panel>
    );
  return (
    <>
      {groups.map(([title, members]) => (
        <section key={title} style={{ display: "grid", gap: 8 }} aria-label={title}>
          <h2 style={{ fontSize: 14, fontWeight: 600, color: "var(--dim)" }}>{title}</h2>
          <ul className={styles.catalogue}>
            {members.map((analysis) => (
              <Card key={analysis.name} analysis={analysis} place={place} />
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function Card({ analysis, place }: { analysis: Analysis; place: Place }) {
  const navigate = useNavigate();
  const { name, title, question, targets } = analysis;
  return (
    <li className={styles.card}>
      <h3 lang="en">{title}</h3>
      <p lang="en">{question}</p>
      <footer>
        <Button
          size="compact-sm"
          aria-label={`Choose ${localized(title)}`}
          onClick={() =>
            navigate({
              to: "/analyses/$template/new",
              params: { template: name },
              search: givenAt(place, analysis),
            })
          }
        >
          Choose
        </Button>
        <small
          style={{ color: "var(--dim)", fontSize: 12.5 }}
        >{`Reads a ${LISTED.format((targets as Kind[]).map(nounOf))}`}</small>
      </footer>
    </li>
  );
}

const LISTED = new Intl.ListFormat(LANGUAGE === "en" ? "en-GB" : LANGUAGE, { type: "disjunction" });

function History({
  target,
  analysis,
  named,
}: {
  target: string | undefined;
  analysis: string | undefined;
  /** The state that the address names. */
  named: string | undefined;
}) {
  const { sort, page, show, by, turning } = useOrder(RUN_SORTS, "-created_at");
  const state = RUN_STATES.find((known) => known === named);
  const runs = useQuery({
    ...runsQuery({ target, analysis, state, sort, page }),
    placeholderData: keepPreviousData,
  });
  const now = useServerNow();
  const total = runs.data?.total;
  return (
    <Panel
      title="History"
      note={total !== undefined && count(total)}
      flush
      actions={
        <>
          <NativeSelect
            aria-label="State"
            size="xs"
            value={state ?? ""}
            data={[
              { value: "", label: "Any state" },
              ...RUN_STATES.map((value) => ({ value, label: runStateText(value) })),
            ]}
            onChange={(event) => show({ state: event.currentTarget.value || undefined })}
          />
          <Pages {...turning} total={total} per={RUNS_PER_PAGE} />
        </>
      }
    >
      {failureOf(runs) && (
        <div className={styles.pad}>
          <ErrorNotice
            error={runs.error}
            title="The history could not be read"
            onRetry={() => runs.refetch()}
          />
        </div>
      )}
      {runs.isPending && <Loading label="Loading the history" />}
      {runs.data && (
        <Table<Run>
          caption="Runs"
          rows={runs.data.rows}
          rowKey={(run) => run.id}
          empty={
            state ? (
              <Empty title="No run is in this state" />
            ) : (
              <Empty title="No run yet">
                {target ? "It has not been analysed yet." : "Choose an analysis above."}
              </Empty>
            )
          }
          columns={[
            {
              ...by("title"),
              key: "analysis",
              header: "Analysis",
              cell: (run) => (
                <Link to="/analyses/runs/$id" params={{ id: run.id }}>
                  <span lang="en">{shortTitle(run)}</span>
                </Link>
              ),
            },
            {
              ...by("target"),
              key: "target",
              header: "Target",
              grow: true,
              cell: (run) => <TargetName kind={run.kind} name={run.target} />,
            },
            { ...by("state"), key: "state", header: "State", cell: (run) => <RunBadge run={run} /> },
            {
              ...by("created_at", true),
              key: "created",
              header: "Started",
              cell: (run) => <Ago at={run.created_at} />,
            },
            {
              key: "took",
              header: "Took",
              numeric: true,
              cell: (run) => {
                const seconds = elapsedOf(run, now);
                return seconds === null ? "—" : duration(seconds);
              },
            },
          ]}
        />
      )}
    </Panel>
  );
}

function RunBadge({ run }: { run: Run }) {
  const share = shareOf(run);
  return (
    <Badge tone={toneOfRun(run.state)} dot>
      {runStateText(run.state)}
      {run.state === "running" && share !== null && ` ${Math.floor(share * 100)} %`}
    </Badge>
  );
}
