import { Button, NativeSelect } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useLive, usePolling } from "../../api/live";
import type { Run } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { bytes, dateTime, duration } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { parseTopicName } from "../../lib/url-state";
import { useWhyNot } from "../../shared/access/may";
import { runStateText } from "../../shared/analyses/run-words";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { DownloadIcon } from "../../ui/icons";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./analyses.module.css";
import { cancelRun, pinRun, runLogQuery, runQuery, runsQuery, startRun } from "./queries";
import { elapsedOf, isExport, isOver, shortTitle, toneOfRun, useMonotonicShare } from "./run/run-state";
import { placeOfTarget, TargetName } from "./target";

const RunResultView = lazy(() =>
  import("./run-result").then((module) => ({ default: module.RunResultView })),
);
const route = getRouteApi("/analyses/runs/$id");
const ALONE_MS = 1_000;

export function RunPage() {
  const { id } = route.useParams();
  const query = runQuery(id);
  const polling = usePolling();
  const run = useQuery({
    ...query,
    refetchInterval: ({ state }) => {
      if (state.data && isOver(state.data)) return false;
      return state.data?.also_reads.length ? ALONE_MS : polling;
    },
  });
  // The feed is judged by the one thing that most runs read; one that reads more is not pushed.
  const { kind, target, cluster } = run.data ?? {};
  const read = { id, kind, target: target || undefined, cluster };
  const isPushed = run.data !== undefined && !isOver(run.data) && run.data.also_reads.length === 0;
  useLive("run", read, query.queryKey, { enabled: isPushed });
  useTitle(
    run.data ? `${localized(run.data.title || run.data.analysis)}, ${runStateText(run.data.state)}` : "Run",
  );
  return (
    <Page>
      {run.data ? (
        <Content key={run.data.id} run={run.data} />
      ) : (
        <>
          <PageHead crumbs={<AnalysesCrumb />} title="Run" />
          {run.isPending && <Loading label="Loading the run" rows={6} />}
        </>
      )}
      {failureOf(run) && (
        <ErrorNotice error={run.error} title="The run could not be read" onRetry={() => run.refetch()} />
      )}
    </Page>
  );
}

function AnalysesCrumb({ topic }: { topic?: string | undefined }) {
  return (
    <Crumb>
      <Link to="/analyses" search={{ topic }}>
        Analyses
      </Link>
    </Crumb>
  );
}

function Content({ run }: { run: Run }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const over = isOver(run);
  const whyNot = useWhyNot(run.cluster, placeOfTarget(run.kind, run.target));
  const { target } = run;
  const shown = run.result ?? run.partial;
  const cancel = useMutation({
    mutationFn: () => cancelRun(run.id),
    onSuccess: (after) => {
      client.setQueryData(runQuery(run.id).queryKey, after);
      notifications.show({
        message: "Cancelling: Spark was requested to stop this run's tasks.",
        closeButtonProps: { "aria-label": "Dismiss" },
      });
    },
  });
  const pin = useMutation({
    mutationFn: (isPinned: boolean) => pinRun(run.id, isPinned),
    onSuccess: (after) => {
      client.setQueryData(runQuery(run.id).queryKey, after);
      void client.invalidateQueries({ queryKey: ["runs"] });
    },
  });
  const resume = useMutation({
    mutationFn: () => startRun(run.analysis, run.parameters, run.id),
    onSuccess: (next) => {
      client.setQueryData(runQuery(next.id).queryKey, next);
      void navigate({ to: "/analyses/runs/$id", params: { id: next.id } });
    },
  });
  return (
    <>
      <PageHead
        crumbs={<AnalysesCrumb topic={parseTopicName(target) ? target : undefined} />}
        title={<span lang="en">{shortTitle(run)}</span>}
        badges={
          <Badge tone={toneOfRun(run.state)} dot>
            {runStateText(run.state)}
          </Badge>
        }
        actions={
          <>
            {!over && (
              <ActionButton
                variant="default"
                why={whyNot("cancelRun")}
                loading={cancel.isPending}
                disabled={cancel.isSuccess || run.cancelling}
                onClick={() => cancel.mutate()}
              >
                {isExport(run) ? "Stop" : "Cancel run"}
              </ActionButton>
            )}
            {over && isExport(run) && (
              <ActionButton
                why={whyNot("startRun")}
                loading={resume.isPending}
                onClick={() => resume.mutate()}
              >
                Resume
              </ActionButton>
            )}
            <Copy value={location.href} what="the link to this run" />
            {over && (
              <ActionButton
                variant="default"
                why={whyNot(run.pinned ? "unpinRun" : "pinRun")}
                loading={pin.isPending}
                onClick={() => pin.mutate(!run.pinned)}
              >
                {run.pinned ? "Unpin" : "Pin"}
              </ActionButton>
            )}
            {over && (
              <Button
                variant="default"
                onClick={() =>
                  navigate({
                    to: "/analyses/$template/new",
                    params: { template: run.analysis },
                    search: { from: run.id, topic: undefined },
                  })
                }
              >
                Run again…
              </Button>
            )}
          </>
        }
      >
        {target && (
          <p className={styles.scope}>
            <TargetName kind={run.kind} name={target} />
          </p>
        )}
      </PageHead>
      {pin.error && <ChangeFailure error={pin.error} title="The pin was not changed" />}
      {cancel.error && <ChangeFailure error={cancel.error} title="The run could not be cancelled" />}
      {resume.error && <ChangeFailure error={resume.error} title="The export was not resumed" />}
      {run.state !== "succeeded" && <Progress run={run} over={over} />}
      {run.error && (
        <Notice tone="error">
          <p>
            <b>The run failed.</b> The same parameters can be tried again with “Run again”.
          </p>
          <pre className={styles.trace} lang="en">
            {run.error}
          </pre>
        </Notice>
      )}
      {!run.result && run.partial && (
        <Notice tone="info">
          <p>{isExport(run) ? exportText(over) : "So far: the result below is incomplete."}</p>
        </Notice>
      )}
      {shown && (
        <Suspense fallback={<Loading label="Loading the plots" rows={6} />}>
          <RunResultView result={shown} cluster={run.cluster} />
        </Suspense>
      )}
      <About run={run} />
    </>
  );
}

/** Committed data stays, also when the run failed. */
function exportText(over: boolean): string {
  const has = "The table has each message up to the positions below once.";
  return over ? `${has} “Resume” continues there.` : `${has} The export goes on.`;
}

/** The bar never moves back; until Spark has planned tasks the text says so, without a share. */
function Progress({ run, over }: { run: Run; over: boolean }) {
  const share = useMonotonicShare(run);
  const now = useServerNow();
  const elapsed = elapsedOf(run, now);
  const percent = share === null ? null : Math.floor(share * 100);
  const stage = run.stage || runStateText(run.state);
  const label = over ? `Stopped during: ${stage}` : run.cancelling ? `Cancelling, during: ${stage}` : stage;
  return (
    <Panel
      title="Progress"
      note={elapsed === null ? `created ${dateTime(run.created_at)}` : duration(elapsed)}
    >
      <div className={styles.progressHead}>
        <span>{label}</span>
        <span>
          {run.progress.total > 0 && `${run.progress.done} of ${run.progress.total} tasks`}
          {percent !== null && <b> {percent} %</b>}
        </span>
      </div>
      <div
        className={styles.bar}
        role="progressbar"
        aria-label="Progress of the run"
        aria-valuemin={0}
        aria-valuemax={100}
        {...(percent === null ? { "aria-valuetext": label } : { "aria-valuenow": percent })}
      >
        <span
          className={share === null && !over ? styles.unknown : styles.done}
          style={{ width: share === null ? (over ? "0%" : "100%") : `${share * 100}%` }}
        />
      </div>
    </Panel>
  );
}

function About({ run }: { run: Run }) {
  const facts: [string, React.ReactNode][] = [
    ["Created", dateTime(run.created_at)],
    ["Started", run.started_at === null ? "—" : dateTime(run.started_at)],
    ["Finished", run.finished_at === null ? "—" : dateTime(run.finished_at)],
  ];
  return (
    <div className={styles.about2}>
      <Panel title="Parameters">
        <dl className={styles.facts}>
          {Object.entries(run.parameters)
            .filter(([, value]) => value !== "")
            .map(([name, value]) => (
              <div key={name}>
                <dt className="mono">{name}</dt>
                <dd className="mono">{typeof value === "string" ? value : JSON.stringify(value)}</dd>
              </div>
            ))}
        </dl>
      </Panel>
      <Panel title="Run">
        <dl className={styles.facts}>
          <div>
            <dt>Id</dt>
            <dd className="mono">
              {run.id}
              <Copy value={run.id} what="run id" />
            </dd>
          </div>
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </Panel>
      {run.downloads.length > 0 && (
        <Panel title="Downloads">
          <ul className={styles.downloads}>
            {run.downloads.map((download) => (
              <li key={download.name}>
                <a href={download.href} download={download.name}>
                  <DownloadIcon size={14} />
                  {download.name}
                </a>
                {download.bytes !== null && <span>{bytes(download.bytes)}</span>}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <More run={run} />
    </div>
  );
}

/** Other runs to compare with, the script that does the same, and the log. */
function More({ run }: { run: Run }) {
  const navigate = useNavigate();
  const others = useQuery({
    ...runsQuery({ analysis: run.analysis, state: "succeeded", sort: "-created_at", page: 1 }),
    enabled: run.result !== null,
  });
  const choices = others.data?.rows.filter(({ id }) => id !== run.id) ?? [];
  const whyNot = useWhyNot(run.cluster, {});
  const [isLogOpen, setLogOpen] = useState(false);
  return (
    <Panel title="More">
      <div className={styles.form}>
        {choices.length > 0 && (
          <NativeSelect
            label="Compare with"
            value=""
            data={[
              { value: "", label: "Choose a run" },
              ...choices.map((each) => ({
                value: each.id,
                label: `${dateTime(each.created_at)} ${each.target}`,
              })),
            ]}
            onChange={(event) => {
              const other = event.currentTarget.value;
              if (other)
                void navigate({ to: "/analyses/runs/$id/compare/$other", params: { id: run.id, other } });
            }}
          />
        )}
        <a href={`/api/v1/runs/${run.id}/script`} download={`${run.analysis}-${run.id}.py`}>
          Python script that does the same
        </a>
        {whyNot("getRunLog") === null && (
          <details onToggle={(event) => setLogOpen(event.currentTarget.open)}>
            <summary>Log</summary>
            {isLogOpen && <Log id={run.id} />}
          </details>
        )}
      </div>
    </Panel>
  );
}

function Log({ id }: { id: string }) {
  const log = useQuery(runLogQuery(id));
  if (failureOf(log)) return <ErrorNotice error={log.error} title="The log could not be read" />;
  if (!log.data) return <Loading label="Loading the log" rows={3} />;
  const { lines, spark_url: sparkPages } = log.data;
  return (
    <>
      {sparkPages && (
        <p>
          <a href={sparkPages} target="_blank" rel="noreferrer">
            Pages of Spark
          </a>
        </p>
      )}
      <pre className={styles.trace}>
        {lines.map(({ at, text }) => `${dateTime(at)} ${text}`).join("\n") || "The run has written nothing."}
      </pre>
    </>
  );
}
