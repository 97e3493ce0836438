import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime, known, rate } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { Freshness } from "../../shared/freshness";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code/code";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { DeleteDialog } from "./delete-dialog";
import { TopicName } from "./functions-page";
import { Exceptions, Instances, Latency } from "./instances";
import { Logs } from "./logs";
import { type FunctionAnswer, type FunctionPlace, functionQuery, type Run } from "./model/function-queries";
import { componentOf, fullName, millis, runningText, toneOf } from "./model/function-words";
import { RunDialog } from "./run-dialog";

const route = getRouteApi("/c/$cluster/functions/$component/$tenant/$namespace/$name");

export function FunctionPage() {
  const params = route.useParams();
  const component = componentOf(params.component);
  useTitle(params.name);
  if (component === undefined)
    return (
      <Page>
        <PageHead title={params.name} />
        <Empty title={`There is no kind ${params.component}`}>It is function, source or sink.</Empty>
      </Page>
    );
  return <Shown place={{ ...params, component }} />;
}

function Shown({ place }: { place: FunctionPlace }) {
  const { cluster, tenant, namespace } = place;
  const answer = useQuery(functionQuery(place));
  const whyNot = useWhyNot(cluster, { tenant, namespace });
  const navigate = useNavigate();
  const [run, setRun] = useState<Run>();
  const [isDeleting, setDeleting] = useState(false);
  const shown = answer.data;
  const isStopped = shown?.function.state === "stopped";
  return (
    <Page>
      <PageHead
        title={place.name}
        badges={
          shown && (
            <Badge tone={toneOf(shown.function)} dot>
              {shown.function.state}
            </Badge>
          )
        }
        freshness={shown && <Freshness at={shown.at} />}
        actions={
          <Link to="/c/$cluster/functions" params={{ cluster }}>
            All functions
          </Link>
        }
      />
      {failureOf(answer) && (
        <ErrorNotice
          error={answer.error}
          title={
            shown
              ? `The ${place.component} could not be read again`
              : `The ${place.component} could not be read`
          }
          onRetry={() => answer.refetch()}
        />
      )}
      {shown === undefined ? (
        answer.isPending && <Loading label={`Loading the ${place.component}`} rows={6} />
      ) : (
        <>
          <Panel
            title={fullName(shown.function)}
            note={place.component}
            actions={
              <>
                <ActionButton why={whyNot("runFunction")} onClick={() => setRun({ verb: "restart" })}>
                  Restart …
                </ActionButton>
                <ActionButton
                  why={whyNot("runFunction")}
                  onClick={() => setRun({ verb: isStopped ? "start" : "stop" })}
                >
                  {isStopped ? "Start …" : "Stop …"}
                </ActionButton>
                <ActionButton
                  why={whyNot("deployFunction")}
                  onClick={() =>
                    void navigate({
                      to: "/c/$cluster/functions/$component/$tenant/$namespace/$name/update",
                      params: place,
                    })
                  }
                >
                  Update …
                </ActionButton>
                <ActionButton why={whyNot("deleteFunction")} onClick={() => setDeleting(true)}>
                  Delete …
                </ActionButton>
              </>
            }
          >
            <Facts of={shown} />
          </Panel>
          <Instances rows={shown.instances} why={whyNot("runFunction")} onRun={setRun} />
          <Exceptions rows={shown.instances} />
          <Latency rows={shown.instances} />
          <Logs place={place} />
          <Panel title="Configuration" note="secrets are hidden">
            <Code label="Configuration">{JSON.stringify(shown.config, null, 2)}</Code>
          </Panel>
        </>
      )}
      {run && (
        <RunDialog
          place={place}
          run={run}
          onChanged={() => answer.refetch()}
          onClose={() => setRun(undefined)}
        />
      )}
      {isDeleting && (
        <DeleteDialog
          place={place}
          onChanged={() => undefined}
          onClose={(isDone) =>
            isDone ? void navigate({ to: "/c/$cluster/functions", params: { cluster } }) : setDeleting(false)
          }
        />
      )}
    </Page>
  );
}

function Facts({ of }: { of: FunctionAnswer }) {
  const row = of.function;
  const perSecond = (value: number | null) => (value === null ? "—" : `${rate(value)}/s`);
  return (
    <dl className={styles.facts}>
      <Fact label="Instances">
        {runningText(row)} run
        {row.stopped > 0 && <small>{row.stopped} stopped</small>}
      </Fact>
      <Fact label="In">{perSecond(row.received_rate)}</Fact>
      <Fact label="Done">{perSecond(row.processed_rate)}</Fact>
      <Fact label="Exceptions">
        {known(row.failures_total, count)}
        <small>{known(row.failures, count)} in the last minute</small>
      </Fact>
      <Fact label="Mean latency">{millis(row.latency_ms)}</Fact>
      <Fact label={row.connector ? "Connector" : "Class"}>{row.connector || row.class_name || "—"}</Fact>
      {of.guarantee && (
        <Fact label="Guarantee">
          {of.guarantee.promise}
          <small>{of.guarantee.condition}</small>
        </Fact>
      )}
      {row.inputs.length > 0 && (
        <Fact label="Reads">
          {row.inputs.map((name) => (
            <div key={name}>
              <TopicName of={name} />
            </div>
          ))}
        </Fact>
      )}
      {row.output && (
        <Fact label="Writes">
          <TopicName of={row.output} />
        </Fact>
      )}
      <Fact label="Code">
        <span className="mono">{of.package || "—"}</span>
        <small>
          version {row.version}
          {row.created_at > 0 && `, since ${dateTime(row.created_at)}`}
        </small>
      </Fact>
    </dl>
  );
}
