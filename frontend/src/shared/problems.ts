import type { Lag, ListedRow } from "../api/types";
import type { Tone } from "../ui/badge";

/** Why something does not drain, as brokers find it. */
export type Problem = NonNullable<ListedRow["attention"]>;

type LagCause = Lag["cause"];

/** What something is doing, in a word or two and in a sentence. */
export interface State {
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
  "rate-limit": ["Rate limit", "A dispatch rate holds back what consumers would take"],
  slow: ["Too slow", "Messages are acknowledged no faster than they arrive"],
  delayed: ["Delayed", "All that waits has a delivery time to come"],
  unwritable: ["Not writable", "Too few bookies are writable: nothing can be published"],
  "producers-left": ["Producers left", "Its producers left when many clients did, and none is back"],
};
/** Causes of subscriptions, by which topics are filtered. */
export const LAG_CAUSES = Object.keys(PROBLEMS).filter(
  (cause): cause is LagCause => cause !== "unwritable" && cause !== "producers-left",
);
const TONES: Record<Problem["severity"], Tone> = { error: "bad", warning: "warn", info: "neutral" };

export function problemState({ cause, severity }: Problem): State {
  const [label, title] = PROBLEMS[cause];
  return { tone: TONES[severity], label, title };
}
