import { Button, NativeSelect, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { bytes, count, plural } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { looks } from "../../shared/messages/looks";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Notice } from "../../ui/states";
import { ProblemsNotice, type ShownProblem } from "./outcome";
import { check, type Line, linesOf, publish, runsOf } from "./publish";

const FILE_MAX = 64 << 20;
const LISTED_MAX = 100;
const SCHEMAS = [
  { value: "newest", label: "the newest of the topic, if it has one" },
  { value: "-1", label: "none: bytes" },
];

interface Progress {
  done: number;
  total: number;
}

/** The end of a run over all lines. `error`: of the request for `unknown`, which ended it. */
interface End {
  right: number;
  wrong: number;
  problems: ShownProblem[];
  error?: unknown;
  unknown?: [first: number, last: number];
  stopped: boolean;
}

/** Publishes messages of a file or text with a JSON object per line, which are all checked first. */
export function LinesForm() {
  const id = useTopicId();
  const why = useWhyNot(id.cluster, { tenant: id.tenant, namespace: id.namespace, topic: nameOf(id) })(
    "publishMessages",
  );
  const [text, setText] = useState("");
  const [file, setFile] = useState<File | null>(null);
  const [schema, setSchema] = useState("newest");
  const [progress, setProgress] = useState<Progress | null>(null);
  const isStopped = useRef(false);
  const version = schema === "newest" ? null : Number(schema);
  const work = async (isPublished: boolean) => {
    isStopped.current = false;
    const lines = linesOf(file === null ? text : await file.text());
    return run(id, lines, version, isPublished, setProgress, () => isStopped.current);
  };
  const trial = useMutation({ mutationFn: () => work(false) });
  const send = useMutation({ mutationFn: () => work(true) });
  const changed = () => {
    trial.reset();
    send.reset();
    setProgress(null);
  };
  const isBusy = trial.isPending || send.isPending;
  const isTooLarge = file !== null && file.size > FILE_MAX;
  const isReady = trial.data !== undefined && trial.data.right > 0 && isClean(trial.data) && !send.data;
  return (
    <Panel title="Publish lines of JSON" note="They are published under your own role.">
      <div style={looks.form}>
        <p style={looks.dim}>
          One message per line, as an export has them: <code>value</code> (a text or JSON) or{" "}
          <code>value_base64</code>, and if wanted <code>key</code>, <code>properties</code>,{" "}
          <code>event_time</code>, <code>deliver_at</code>, <code>deliver_after_ms</code>.
        </p>
        <div style={looks.fields}>
          <label>
            File
            <input
              type="file"
              accept=".jsonl,.ndjson,.json,.txt"
              disabled={isBusy}
              style={looks.file}
              onClick={(event) => {
                // Else a corrected file of the same name would be no change.
                event.currentTarget.value = "";
              }}
              onChange={(event) => {
                setFile(event.currentTarget.files?.[0] ?? null);
                changed();
              }}
            />
          </label>
          <NativeSelect
            label="Schema"
            data={SCHEMAS}
            value={schema}
            disabled={isBusy}
            onChange={(event) => {
              setSchema(event.currentTarget.value);
              changed();
            }}
          />
        </div>
        {file === null && (
          <Textarea
            label="or lines"
            placeholder='{"key": "k1", "value": {"id": 1}}'
            styles={{ input: looks.value }}
            autosize
            minRows={5}
            maxRows={20}
            spellCheck={false}
            disabled={isBusy}
            value={text}
            onChange={(event) => {
              setText(event.currentTarget.value);
              changed();
            }}
          />
        )}
        {isTooLarge && <Notice tone="error">A file has at most {bytes(FILE_MAX)}: divide it.</Notice>}
        <div style={looks.choices}>
          <Button
            variant={isReady ? "default" : "filled"}
            disabled={isBusy || isTooLarge || (file === null && text.trim() === "") || why !== null}
            loading={trial.isPending}
            onClick={() => {
              send.reset();
              trial.mutate();
            }}
          >
            Check all lines
          </Button>
          <ActionButton why={why} disabled={!isReady} loading={send.isPending} onClick={() => send.mutate()}>
            {isReady && trial.data ? `Publish ${plural(trial.data.right, "message")}` : "Publish"}
          </ActionButton>
          {isBusy && (
            <Button
              variant="default"
              onClick={() => {
                isStopped.current = true;
              }}
            >
              Stop
            </Button>
          )}
        </div>
      </div>
      {progress && isBusy && (
        <p role="status">
          {trial.isPending ? "Checked" : "Published"} {count(progress.done)} of{" "}
          {plural(progress.total, "line")}
        </p>
      )}
      <div aria-live="polite">
        {!isBusy && !send.data && trial.data && <Ending end={trial.data} isPublished={false} />}
        {!isBusy && send.data && <Ending end={send.data} isPublished />}
        {(trial.error ?? send.error) && (
          <ErrorNotice
            error={trial.error ?? send.error}
            title="The lines could not be read: choose the file again"
          />
        )}
      </div>
    </Panel>
  );
}

const isClean = ({ wrong, error, stopped }: End) => wrong === 0 && error === undefined && !stopped;

function Ending({ end, isPublished }: { end: End; isPublished: boolean }) {
  const done = plural(end.right, "message");
  return (
    <>
      <p role="status">
        {isPublished
          ? `${done} published${isClean(end) ? "" : ", the others were not"}.`
          : isClean(end)
            ? end.right === 0
              ? "There is no line."
              : `All ${done} can be published.`
            : `${done} can be published, ${count(end.wrong)} cannot. Nothing was published.`}
        {end.stopped && " You stopped it."}
      </p>
      {end.problems.length > 0 && <ProblemsNotice problems={end.problems} total={end.wrong} />}
      {end.error !== undefined && end.unknown && (
        <ChangeFailure
          error={end.error}
          title={`Lines from ${end.unknown[0]} on were not ${isPublished ? "published" : "checked"}`}
          unknown={
            isPublished
              ? `It is not known whether lines ${end.unknown[0]} to ${end.unknown[1]} were published; later ones were not`
              : `Lines from ${end.unknown[0]} on were not checked`
          }
        />
      )}
    </>
  );
}

/** Check or publish lines, one run after the other. A run with a line that was not stored ends the publishing. */
async function run(
  id: TopicId,
  lines: Line[],
  schema: number | null,
  isPublished: boolean,
  report: (progress: Progress) => void,
  isStopped: () => boolean,
): Promise<End> {
  const end: End = { right: 0, wrong: 0, problems: [], stopped: false };
  const add = (line: Line | undefined, field: string, reason: string) => {
    if (end.problems.length < LISTED_MAX)
      end.problems.push({ place: `line ${line?.number ?? "?"}${field && `, ${field}`}`, reason });
  };
  let done = 0;
  for (const part of runsOf(lines)) {
    if (isStopped()) return { ...end, stopped: true };
    const given = { lines: part.map(({ text }) => text) };
    try {
      if (isPublished) {
        const { results, stored } = await publish(id, given, schema);
        end.right += stored;
        end.wrong += results.length - stored;
        for (const [index, { problem }] of results.entries())
          if (problem !== null) add(part[index], "", problem);
        if (stored < results.length) return end;
      } else {
        const found = await check(id, given, schema);
        end.right += found.messages - found.wrong;
        end.wrong += found.wrong;
        for (const { message, field, reason } of found.problems) add(part[message], field, reason);
      }
    } catch (error) {
      return { ...end, error, unknown: [part[0]?.number ?? 0, part.at(-1)?.number ?? 0] };
    }
    done += part.length;
    report({ done, total: lines.length });
  }
  return end;
}
