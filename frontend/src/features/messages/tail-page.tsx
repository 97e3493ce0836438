import { Button, NativeSelect } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { count, duration, time } from "../../lib/format";
import { looks } from "../../shared/messages/looks";
import type { TopicId } from "../../shared/topic/queries";
import { useTopicId } from "../../shared/topic/use-topic";
import { Panel } from "../../ui/panel";
import { Empty, Loading, Notice } from "../../ui/states";
import { ConditionFields, conditionsOf } from "./conditions";
import { MessageTable } from "./message-table";
import { isFiltered, type TailSearch } from "./search";
import { type Counts, NOTHING, TailSocket, tailUrl } from "./tail";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/tail");
const RATES = ["1", "5", "20", "50", "100"];
const RATE = "20";
/** Delay of reading behind publishing from which on it is stated. */
const BEHIND_MS = 5_000;

/** Messages as they are published, with the counts of those that are not shown. */
export function TailPage() {
  const id = useTopicId();
  const search = route.useSearch();
  if (id.domain !== "persistent")
    return (
      <Empty title="Nothing is stored">A live tail reads stored messages: the topic is non-persistent.</Empty>
    );
  return (
    <>
      <TailForm key={JSON.stringify(search)} search={search} />
      <LiveTail key={tailUrl(id, search)} id={id} search={search} />
    </>
  );
}

function TailForm({ search }: { search: TailSearch }) {
  const navigate = useNavigate({ from: "/c/$cluster/t/$tenant/$namespace/$topic/tail" });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const rate = String(form.get("rate"));
    const next = { ...conditionsOf(form), rate: rate === RATE ? undefined : rate };
    void navigate({ search: (before) => ({ ...before, ...next }) });
  }
  return (
    <Panel title="Follow messages" note="No subscription is moved or created.">
      <form style={looks.form} onSubmit={submit}>
        <details open={isFiltered(search)}>
          <summary style={looks.summary}>Conditions</summary>
          <ConditionFields search={search} />
        </details>
        <div style={looks.fields}>
          <NativeSelect
            label="Show at most a second"
            name="rate"
            data={RATES}
            defaultValue={search.rate ?? RATE}
          />
        </div>
        <div>
          <Button type="submit">Follow these</Button>
        </div>
      </form>
    </Panel>
  );
}

function LiveTail({ id, search }: { id: TopicId; search: TailSearch }) {
  const [tail, setTail] = useState(NOTHING);
  const socket = useRef<TailSocket | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another address mounts another component
  useEffect(() => {
    const opened = new TailSocket(tailUrl(id, search), setTail);
    socket.current = opened;
    return () => opened.close();
  }, []);
  const { counts, state } = tail;
  const isPaused = counts?.paused ?? false;
  return (
    <Panel
      title="Live tail"
      note="newest first"
      flush
      actions={
        <Button
          variant="default"
          disabled={state !== "open"}
          aria-pressed={isPaused}
          onClick={() => socket.current?.pause(!isPaused)}
        >
          {isPaused ? "Resume" : "Pause"}
        </Button>
      }
    >
      {state === "lost" && (
        <Notice tone="warning">
          <p>
            The connection ended
            {tail.reason && (
              <>
                : <span lang="en">{tail.reason}</span>
              </>
            )}
            . It is opened again, and counts anew. If that does not help, your role may not consume from the
            topic or see its payloads.
          </p>
        </Notice>
      )}
      {state === "refused" && (
        <Notice tone="error">
          <p>
            The messages are not shown any more: <span lang="en">{tail.reason}</span>
          </p>
        </Notice>
      )}
      {counts?.problem && (
        <Notice tone="warning">
          <p>
            The topic cannot be read completely at present: <span lang="en">{counts.problem}</span>. It is
            tried again.
          </p>
        </Notice>
      )}
      {state === "connecting" && <Loading label="Waiting for the end of the topic" rows={3} />}
      {counts && tail.since !== null && (
        <div style={looks.foot}>
          <p data-tail-counts>{countsText(counts, tail.since)}</p>
          {counts.behind_ms > BEHIND_MS && (
            <p>
              More is published than is read: the end was reached {duration(counts.behind_ms / 1000)} ago.
            </p>
          )}
        </div>
      )}
      {tail.rows.length > 0 ? (
        <MessageTable messages={tail.rows} hasPartitions={tail.partitions > 0} />
      ) : (
        state === "open" && <Empty title="Nothing was published yet that matches" />
      )}
    </Panel>
  );
}

function countsText(counts: Counts, since: number): string {
  const rest = [
    counts.filtered > 0 && `${count(counts.filtered)} did not match`,
    counts.passed_over > 0 && `${count(counts.passed_over)} passed over`,
  ].filter(Boolean);
  return (
    `Shown ${count(counts.shown)} of ${count(counts.received)} since ${time(since)}` +
    (rest.length > 0 ? `: ${rest.join(", ")}` : "") +
    (counts.paused ? ". Paused" : "")
  );
}
