import type { ListedRow } from "../../api/types";
import { count, plural } from "../../lib/format";
import { problemState, type State } from "../../shared/problems";

/** The state of a topic. Only lasting states are shown: a message in flight is none. */
export function rowState(row: ListedRow): State {
  if (row.known === "no")
    return {
      tone: "warn",
      label: "Not known",
      title: "No broker has reported its numbers yet, or its broker does not answer",
    };
  if (row.known === "last")
    return {
      tone: "warn",
      label: "Last known",
      title: "Its broker does not answer: the numbers are as last known",
    };
  if (row.attention) return problemState(row.attention);
  if (row.known === "at_rest")
    return {
      tone: "neutral",
      label: "At rest",
      title: "No broker has it loaded: the numbers are as stored",
    };
  if (row.msg_rate_in || row.msg_rate_out)
    return { tone: "ok", label: "Active", title: "Messages are published or sent to consumers" };
  return { tone: "neutral", label: "Idle", title: "No message was published or sent in the last second" };
}

/** `trend`: the entries of the backlog at the end of each of the last minutes, oldest first; null: not known then. */
export function trendText(trend: readonly (number | null)[], now: number | null): string {
  if (now === null) return "not known now";
  const first = trend.findIndex((value) => value !== null);
  const past = trend[first];
  const entries = (value: number) => plural(value, "entry", "entries");
  if (past === undefined || past === null) return `backlog ${entries(now)} now`;
  return `backlog ${entries(past)} ${trend.length - first} min ago, ${count(now)} now`;
}

/** An explanation of a number of clients that counts one of them several times; null: it does not. */
export function severalTimes(column: string, row: ListedRow): string | null {
  if (row.partitions < 2 || !(column === "producers" || column === "consumers") || !row[column]) return null;
  return `Total of its ${count(row.partitions)} partitions: a client counts on each that it uses`;
}
