import type { ListedRow } from "../../api/types";
import type { Tone } from "../../ui/badge";

type Problem = NonNullable<ListedRow["attention"]>;

export interface RowState {
  tone: Tone;
  label: string;
  title: string;
}

/** In a word or two, and in a sentence. */
export const PROBLEMS: Record<Problem["cause"], [string, string]> = {
  storage: ["Unreadable", "Messages, or what a subscription keeps, cannot be read now"],
  "no-consumer": ["No consumer", "Messages wait and no consumer is connected"],
  reconnecting: ["Reconnects", "Consumers come and go without acknowledging anything"],
  held: ["Held", "One consumer holds a subscription, acknowledges nothing, and others are refused"],
  standby: ["Standby", "The active consumer takes nothing more while others stand by"],
  "no-permits": ["Not taking", "Consumers are connected and take nothing more"],
  "unacked-limit": ["At its limit", "So much is out unacknowledged that nothing more is sent"],
  redelivery: ["Redelivery", "What is sent comes back, again and again"],
  "not-acknowledged": ["Unacknowledged", "Consumers receive and acknowledge nothing"],
  "hot-key": ["Hot key", "Messages wait for the one consumer of their key"],
  slow: ["Too slow", "Messages are acknowledged no faster than they arrive"],
  delayed: ["Delayed", "All that waits has a delivery time to come"],
};
const TONES: Record<Problem["severity"], Tone> = { error: "bad", warning: "warn", info: "neutral" };

/** What a topic is doing. Only what holds for a while is said: a message in flight is no state. */
export function rowState(row: ListedRow): RowState {
  if (row.known === "no")
    return {
      tone: "warn",
      label: "Not known",
      title: "Nobody has told its numbers yet, or whoever knows them does not answer",
    };
  if (row.known === "last")
    return {
      tone: "warn",
      label: "Last known",
      title: "Its broker does not answer: the numbers are as last known",
    };
  if (row.attention) {
    const [label, title] = PROBLEMS[row.attention.cause];
    return { tone: TONES[row.attention.severity], label, title };
  }
  if (row.known === "at_rest")
    return {
      tone: "neutral",
      label: "At rest",
      title: "No broker has it loaded: the numbers are what is stored",
    };
  if (row.msg_rate_in || row.msg_rate_out)
    return { tone: "ok", label: "Active", title: "Messages come in or go out" };
  return { tone: "neutral", label: "Idle", title: "No message came in or went out in the last second" };
}
