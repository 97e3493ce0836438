import { count, tenths } from "../../../lib/format";
import type { Tone } from "../../../ui/badge";
import type { Sort as Order } from "../../../ui/grid/sorting";
import type { Component, FunctionRow, InstanceRow } from "./function-queries";

export const COMPONENTS: readonly { value: Component; label: string }[] = [
  { value: "function", label: "Functions" },
  { value: "source", label: "Sources" },
  { value: "sink", label: "Sinks" },
];

const NOUNS: Record<Component, { text: string }> = {
  function: { text: "function" },
  source: { text: "source" },
  sink: { text: "sink" },
};

export function nounOf(component: Component): string {
  return NOUNS[component].text;
}

const STATES: Record<string, { text: string }> = {
  running: { text: "running" },
  "partly running": { text: "partly running" },
  starting: { text: "starting" },
  stopped: { text: "stopped" },
  failed: { text: "failed" },
  "not known": { text: "not known" },
};

/** The state in words; one that this console does not know as it is. */
export function stateText(state: string): string {
  return STATES[state]?.text ?? state;
}

const ORIGINS: Record<string, { text: string }> = {
  user: { text: "user" },
  system: { text: "system" },
  source: { text: "source" },
  sink: { text: "sink" },
};

/** The origin of an exception in words; an origin that this console does not know as it is. */
export function originText(kind: string): string {
  return ORIGINS[kind]?.text ?? kind;
}

/** The component of the address; undefined for what is none. */
export function componentOf(text: string | undefined): Component | undefined {
  return COMPONENTS.find(({ value }) => value === text)?.value;
}

export const SORTS = [
  "name",
  "component",
  "state",
  "instances",
  "received_rate",
  "processed_rate",
  "failures",
  "latency_ms",
] as const;
export type Sort = (typeof SORTS)[number];
export type SortOrder = Order<Sort>;
export const DEFAULT_SORT: SortOrder = "name";

export function fullName({ tenant, namespace, name }: Pick<FunctionRow, "tenant" | "namespace" | "name">) {
  return `${tenant}/${namespace}/${name}`;
}

/** Good only while it does what it should, and without exceptions. */
export function toneOf({ state, failures }: Pick<FunctionRow, "state" | "failures">): Tone {
  if (state === "stopped") return "neutral";
  if (state !== "running") return "bad";
  return failures ? "warn" : "ok";
}

/** "2 of 3"; without the instances whose workers are silent a number alone would be too low. */
export function runningText({
  running,
  unknown,
  instances,
}: Pick<FunctionRow, "running" | "unknown" | "instances">): string {
  if (unknown === 0) return `${running} of ${instances}`;
  return running === 0 ? `— of ${instances}` : `≥ ${running} of ${instances}`;
}

export function stateOf({ running, stopped, error }: InstanceRow): { word: string; tone: Tone } {
  if (running) return { word: stateText("running"), tone: "ok" };
  if (stopped) return { word: stateText("stopped"), tone: "neutral" };
  return error ? { word: stateText("failed"), tone: "bad" } : { word: stateText("starting"), tone: "warn" };
}

export function millis(value: number | null): string {
  return value === null ? "—" : `${value < 10 ? tenths(value) : count(Math.round(value))} ms`;
}

/** Invocations by their duration, of cumulative counts: each bar has those above the bound before. */
export function histogramOf(buckets: InstanceRow["latency_buckets"]): { label: string; value: number }[] {
  return buckets.map(({ up_to_ms, count: value }, index) => {
    const before = buckets[index - 1];
    const label = up_to_ms === "+Inf" ? `more than ${before?.up_to_ms ?? 0} ms` : `up to ${up_to_ms} ms`;
    return { label, value: value - (before?.count ?? 0) };
  });
}

/** The same histogram over several instances. */
export function summedBuckets(rows: readonly InstanceRow[]): InstanceRow["latency_buckets"] {
  const sums = new Map<string, number>();
  for (const { latency_buckets } of rows)
    for (const { up_to_ms, count: value } of latency_buckets)
      sums.set(up_to_ms, (sums.get(up_to_ms) ?? 0) + value);
  return [...sums].map(([up_to_ms, value]) => ({ up_to_ms, count: value }));
}
