import type { TopicRow } from "../../api/types";
import { age } from "../../lib/format";
import type { Tone } from "../../ui/badge";

export interface RowState {
  tone: Tone;
  label: string;
  title: string;
}

/** What a topic is doing, in a word or two. Only what holds for a while is said: a message in flight is no state. */
export function rowState(row: TopicRow, now: number): RowState {
  if (row.backlog === null || row.producers === null)
    return { tone: "warn", label: "Unknown", title: "Its broker does not answer, or nobody has read it yet" };
  if (row.loaded === null)
    return {
      tone: "warn",
      label: "Last known",
      title: `Its broker does not answer; these are the numbers of ${age(row.at, now)} ago`,
    };
  if (!row.loaded)
    return {
      tone: "neutral",
      label: "At rest",
      title: "No broker has it loaded; the numbers are what is stored",
    };
  if (row.msg_rate_in || row.msg_rate_out)
    return { tone: "ok", label: "Active", title: "Messages come in or go out" };
  return { tone: "neutral", label: "Idle", title: "No message came in or went out in the last second" };
}
