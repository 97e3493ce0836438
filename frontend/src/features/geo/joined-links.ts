import { age, plural } from "../../lib/format";
import type { Tone } from "../../ui/badge";
import type { End, Ends } from "./geo-queries";

/** The known state of a cluster: its ends of links, or the reason why they are not known. */
export interface Reported {
  ends?: Ends | undefined;
  why?: string | undefined;
}

/** A direction between two clusters, as both report it. */
export interface Link {
  from: string;
  to: string;
  /** The report of the sending cluster; null: not known. */
  sender: End | null;
  /** The report of the receiving cluster; null: not known. */
  receiver: End | null;
  tone: Tone;
  state: string;
  /** The reasons for the state. */
  why: string[];
}

/** Age of the oldest message from which a link is behind. */
const BEHIND_MS = 30_000;
/** Difference of both ends' rates that is no disagreement: each counts in seconds of its own. */
const RATE_SHARE = 0.25;
const RATE_LEAST = 2;

/** The clusters that are reported or named in a record of one that is, by name. */
export function clustersOf(reported: ReadonlyMap<string, Reported>): string[] {
  const names = new Set(reported.keys());
  for (const { ends } of reported.values()) {
    for (const { name } of ends?.records ?? []) names.add(name);
    for (const { remote } of ends?.links ?? []) names.add(remote);
  }
  return [...names].sort();
}

/** All directions on which something is sent or received, or was to be, by sender and receiver. */
export function linksOf(reported: ReadonlyMap<string, Reported>, now: number): Link[] {
  const names = clustersOf(reported);
  const found: Link[] = [];
  for (const from of names)
    for (const to of names) {
      if (from === to) continue;
      const sender = endOf(reported, from, to);
      const receiver = endOf(reported, to, from);
      if (sender?.topics === 0 && sender.known === "live" && !receiver?.received_topics) continue;
      if (sender === null && receiver !== null && receiver.received_topics === 0) continue;
      if (sender === null && receiver === null) continue;
      found.push({ from, to, sender, receiver, ...judged(reported, from, to, sender, receiver, now) });
    }
  return found;
}

function endOf(reported: ReadonlyMap<string, Reported>, of: string, remote: string): End | null {
  return reported.get(of)?.ends?.links.find((link) => link.remote === remote) ?? null;
}

/** The age of the oldest message that is not known to be stored there, ms; 0: there is none, null: not known. */
export function delayOf(end: End | null, now: number): number | null {
  if (end === null || end.oldest_at === null) return null;
  return end.oldest_at === 0 ? 0 : Math.max(now - end.oldest_at, 0);
}

function judged(
  reported: ReadonlyMap<string, Reported>,
  from: string,
  to: string,
  sender: End | null,
  receiver: End | null,
  now: number,
): Pick<Link, "tone" | "state" | "why"> {
  const why: string[] = [];
  const stopped = sender?.stopped ?? 0;
  for (const cause of sender?.causes ?? [])
    why.push(`${plural(cause.topics, "topic")}: ${CAUSES[cause.cause] ?? cause.cause}`);
  const missing = [missingEnd(reported, from, sender), missingEnd(reported, to, receiver)].filter(
    (text) => text !== null,
  );
  const delay = delayOf(sender, now) ?? 0;
  if (delay >= BEHIND_MS) why.push(`the oldest message waits ${age(now - delay, now)}`);
  const differences = missing.length > 0 ? [] : differencesOf(sender as End, receiver as End);
  why.push(...missing, ...differences);
  if (sender !== null && stopped > 0)
    return stopped === sender.topics
      ? { tone: "bad", state: "stopped", why }
      : { tone: "bad", state: `${stopped} of ${sender.topics} stopped`, why };
  if (missing.length > 0) return { tone: "warn", state: "partly unknown", why };
  if (differences.length > 0) return { tone: "warn", state: "ends disagree", why };
  if (delay >= BEHIND_MS) return { tone: "warn", state: "behind", why };
  return { tone: "ok", state: "sending", why };
}

function missingEnd(
  reported: ReadonlyMap<string, Reported>,
  cluster: string,
  end: End | null,
): string | null {
  if (end === null) return `${cluster}: ${reported.get(cluster)?.why ?? "does not report yet"}`;
  if (end.known === "live") return null;
  const brokers = end.silent.length > 0 ? end.silent.join(", ") : "a broker";
  return `${cluster}: ${brokers} ${end.silent.length > 1 ? "do" : "does"} not report`;
}

/** Differences between the reports of both ends, in words. A rate counts only when the last recorded means differ as well. */
function differencesOf(sender: End, receiver: End): string[] {
  const found: string[] = [];
  const received = receiver.received_topics;
  const connected = sender.topics === null ? null : sender.topics - (sender.stopped ?? 0);
  if (connected !== null && received !== null && connected !== received)
    found.push(`${plural(connected, "topic")} connected there, ${received} received here`);
  if (
    differ(sender.msg_rate, receiver.received_msg_rate) &&
    differ(lastOf(sender.trend?.sent), lastOf(receiver.trend?.received))
  )
    found.push("the rates of both ends differ");
  return found;
}

function lastOf(values: readonly (number | null)[] | undefined): number | null {
  return values?.at(-1) ?? null;
}

function differ(one: number | null, other: number | null): boolean {
  if (one === null || other === null) return false;
  return Math.abs(one - other) > Math.max(RATE_LEAST, RATE_SHARE * Math.max(one, other));
}

/** Causes in words, which continue after a number of topics. */
export const CAUSES: Record<string, string> = {
  unreachable: "the other cluster cannot be reached",
  refused: "the other cluster refuses the replicator",
  quota: "a backlog quota is reached there",
  schema: "the schema is refused there",
  rights: "the credentials are refused there, or have too few rights",
  "topic-missing": "the topic does not exist there",
  partitions: "the number of partitions differs there",
  record: "the definition of the other cluster cannot be used",
  transaction: "the next message is of a transaction",
  version: "the brokers there are of a version that cannot receive",
  unconfirmed: "the other cluster does not confirm messages",
  storage: "messages cannot be read here",
  "rate-limit": "limited by the replication's dispatch rate",
  connecting: "being connected",
  unloaded: "no broker has the topic loaded",
  failed: "unexpected error",
};
