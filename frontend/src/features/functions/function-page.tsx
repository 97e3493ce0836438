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
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { DeleteDialog } from "./delete-dialog";
import { TopicName } from "./functions-page";
import { Exceptions, Instances, Latency } from "./instances";
import { Logs } from "./logs";
import { type FunctionAnswer, type FunctionPlace, functionQuery, type Run } from "./model/function-queries";
import {
  componentOf,
  fullName,
  millis,
  nounOf,
  runningText,
  stateText,
  toneOf,
} from "./model/function-words";
import { RunDialog } from "./run-dialog";
import { Trial } from "./trial";

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
  const noun = nounOf(place.component);
  const isStopped = shown?.function.state === "stopped";
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/functions" params={{ cluster }}>
              Functions
            </Link>
          </Crumb>
        }
        title={place.name}
        badges={
          shown && (
            <Badge tone={toneOf(shown.function)} dot>
              {stateText(shown.function.state)}
            </Badge>
          )
        }
        freshness={shown && <Freshness at={shown.at} />}
      />
      {failureOf(answer) && (
        <ErrorNotice
          error={answer.error}
          title={shown ? `The ${noun} could not be read again` : `The ${noun} could not be read`}
          onRetry={() => answer.refetch()}
        />
      )}
      {shown === undefined ? (
        answer.isPending && <Loading label={`Loading the ${noun}`} rows={6} />
      ) : (
        <>
          <Panel
            title={fullName(shown.function)}
            note={noun}
            actions={
              <>
                <ActionButton
                  variant="default"
                  why={whyNot("runFunction")}
                  onClick={() => setRun({ verb: "restart" })}
                >
                  Restart …
                </ActionButton>
                <ActionButton
                  variant="default"
                  why={whyNot("runFunction")}
                  onClick={() => setRun({ verb: isStopped ? "start" : "stop" })}
                >
                  {isStopped ? "Start …" : "Stop …"}
                </ActionButton>
                <ActionButton
                  variant="default"
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
                <ActionButton
                  variant="default"
                  why={whyNot("deleteFunction")}
                  onClick={() => setDeleting(true)}
                >
                  Delete …
                </ActionButton>
              </>
            }
          >
            <Facts of={shown} />
          </Panel>
          {place.component === "function" && (
            <Trial ask={() => ({ place, deployment: { config: {} } })} why={whyNot("tryFunction")}>
              Its code and its config as they are deployed.
            </Trial>
          )}
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

/** Links of neighbouring lines are apart enough for a finger. */
const TARGET = { lineHeight: "24px" } as const;

function Facts({ of }: { of: FunctionAnswer }) {
  const row = of.function;
  const perSecond = (value: number | null) => (value === null ? "—" : `${rate(value)}/s`);
  return (
    <dl className={styles.facts}>
      <Fact label="Instances">
        {`${runningText(row)} run`}
        {row.stopped > 0 && <small>{`${count(row.stopped)} stopped`}</small>}
      </Fact>
      <Fact label="In">{perSecond(row.received_rate)}</Fact>
      <Fact label="Done">{perSecond(row.processed_rate)}</Fact>
      <Fact label="Exceptions">
        {known(row.failures_total, count)}
        <small>{`${known(row.failures, count)} in the last minute`}</small>
      </Fact>
      <Fact label="Mean latency">{millis(row.latency_ms)}</Fact>
      <Fact label={row.connector ? "Connector" : "Class"}>{row.connector || row.class_name || "—"}</Fact>
      {of.guarantee && (
        <Fact label="Guarantee">
          <span lang="en">{of.guarantee.promise}</span>
          <small lang="en">{of.guarantee.condition}</small>
        </Fact>
      )}
      {row.inputs.length > 0 && (
        <Fact label="Reads">
          {row.inputs.map((name) => (
            <div key={name} style={TARGET}>
              <TopicName of={name} />
            </div>
          ))}
        </Fact>
      )}
      {row.output && (
        <Fact label="Writes">
          <div style={TARGET}>
            <TopicName of={row.output} />
          </div>
        </Fact>
      )}
      <Fact label="Code">
        <span className="mono">{of.package || "—"}</span>
        <small>
          {row.created_at > 0
            ? `version ${row.version}, since ${dateTime(row.created_at)}`
            : `version ${row.version}`}
        </small>
      </Fact>
    </dl>
  );
}
