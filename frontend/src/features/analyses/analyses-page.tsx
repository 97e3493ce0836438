import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import type { Analysis, Run } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { age, count, dateTime, duration } from "../../lib/format";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { LaunchForm } from "./launch-page";
import { analysesQuery, RUNS_PER_PAGE, runsQuery } from "./queries";
import { elapsedOf, shareOf, toneOfRun } from "./run-state";
import { SparkOffer } from "./spark-offer";
import { TopicName } from "./target";

const route = getRouteApi("/analyses");

export function AnalysesPage() {
  useTitle("Analyses");
  const { topic, analysis, page = 1 } = route.useSearch();
  const catalogue = useQuery(analysesQuery);
  // Nothing to choose from: a user who comes from a topic sees the form at once, above that topic's runs.
  const only = topic && catalogue.data?.length === 1 ? catalogue.data[0] : undefined;
  return (
    <Page>
      <PageHead title="Analyses">
        {topic && (
          <p className={styles.scope}>
            For <TopicName name={topic} />
            <Link to="/analyses" className={styles.clear}>
              Show all topics
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
      {only ? (
        <LaunchForm key={topic} analysis={only} given={{ topic }} title={only.title} />
      ) : (
        catalogue.data && <Catalogue analyses={catalogue.data} topic={topic} />
      )}
      <History topic={topic} analysis={analysis} page={page} />
    </Page>
  );
}

function Catalogue({ analyses, topic }: { analyses: Analysis[]; topic: string | undefined }) {
  const navigate = useNavigate();
  if (analyses.length === 0)
    return (
      <Panel title="Catalogue">
        <Empty title="No analysis is installed" />
      </Panel>
    );
  return (
    <ul className={styles.catalogue}>
      {analyses.map((analysis) => (
        <li key={analysis.name} className={styles.card}>
          <h2>{analysis.title}</h2>
          <p>{analysis.question}</p>
          <Button
            aria-label={`Choose ${analysis.title}`}
            onClick={() =>
              navigate({
                to: "/analyses/$template/new",
                params: { template: analysis.name },
                search: { topic },
              })
            }
          >
            Choose
          </Button>
        </li>
      ))}
    </ul>
  );
}

function History({
  topic,
  analysis,
  page,
}: {
  topic: string | undefined;
  analysis: string | undefined;
  page: number;
}) {
  const runs = useQuery({
    ...runsQuery({ target: topic, analysis, page }),
    placeholderData: keepPreviousData,
  });
  const now = useServerNow();
  const navigate = useNavigate({ from: "/analyses" });
  const total = runs.data?.total;
  const pages = total === undefined ? 1 : Math.max(1, Math.ceil(total / RUNS_PER_PAGE));
  const turn = (to: number) =>
    navigate({ search: (before) => ({ ...before, page: to > 1 ? to : undefined }) });
  return (
    <Panel
      title="History"
      note={total !== undefined && count(total)}
      flush
      actions={
        pages > 1 && (
          <>
            <Button variant="default" disabled={page <= 1} onClick={() => turn(page - 1)}>
              Newer
            </Button>
            <span>
              {page} of {pages}
            </span>
            <Button variant="default" disabled={page >= pages} onClick={() => turn(page + 1)}>
              Older
            </Button>
          </>
        )
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
          caption="Runs, newest first"
          rows={runs.data.rows}
          rowKey={(run) => run.id}
          empty={
            <Empty title="No run yet">
              {topic ? "This topic has not been analysed." : "Choose an analysis above."}
            </Empty>
          }
          columns={[
            {
              key: "analysis",
              header: "Analysis",
              cell: (run) => (
                <Link to="/analyses/runs/$id" params={{ id: run.id }}>
                  {run.title || run.analysis}
                </Link>
              ),
            },
            {
              key: "target",
              header: "Target",
              grow: true,
              cell: (run) => <TopicName name={run.target || "—"} />,
            },
            { key: "state", header: "State", cell: (run) => <RunBadge run={run} /> },
            {
              key: "created",
              header: "Started",
              cell: (run) => (
                <span title={dateTime(run.created_at)}>
                  {`${age(run.created_at, now)} ago`.replace("now ago", "now")}
                </span>
              ),
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
      {run.state}
      {run.state === "running" && share !== null && ` ${Math.floor(share * 100)} %`}
    </Badge>
  );
}
