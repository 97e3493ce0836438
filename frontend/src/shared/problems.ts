import type { Lag, ListedRow } from "../api/types";
import type { Tone } from "../ui/badge";

/** The cause of a subscription or topic that does not drain, as found by its broker. */
export type Problem = NonNullable<ListedRow["attention"]>;

type LagCause = Lag["cause"];

/** The state of a topic or subscription, as a short label and a sentence. */
export interface State {
  tone: Tone;
  label: string;
  title: string;
}

/** A short label and a sentence. */
export const PROBLEMS: Record<Problem["cause"], [string, string]> = {
  storage: ["Unreadable", "Messages, or the state of a subscription, cannot be read now"],
  "no-consumer": ["No consumer", "Messages wait and no consumer is connected"],
  reconnecting: ["Reconnects", "Consumers connect and disconnect without acknowledging anything"],
  held: ["Held", "One consumer holds a subscription, acknowledges nothing, and others are refused"],
  standby: ["Standby", "The active consumer requests no more messages while others are on standby"],
  "no-permits": ["No permits", "Consumers are connected and request no more messages"],
  "unacked-limit": ["At its limit", "So many messages are unacknowledged that no more are sent"],
  redelivery: ["Redelivery", "The same messages are redelivered repeatedly"],
  "not-acknowledged": ["Unacknowledged", "Consumers receive messages and acknowledge none"],
  "hot-key": ["Hot key", "Messages wait for the one consumer of their key"],
  "rate-limit": ["Rate limit", "A dispatch rate limits what consumers receive"],
  slow: ["Too slow", "Messages are acknowledged no faster than they arrive"],
  late: ["Late", "The oldest message is older than the subscription's target"],
  delayed: ["Delayed", "All remaining messages have a delivery time in the future"],
  unwritable: ["Not writable", "Too few bookies are writable: nothing can be published"],
  "producers-left": [
    "Producers left",
    "Its producers disconnected together with many clients, and none has reconnected",
  ],
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
