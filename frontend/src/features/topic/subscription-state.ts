import type { SubscriptionRow } from "../../api/types";
import { count, duration, plural } from "../../lib/format";
import { problemState, type State } from "../../shared/problems";

/** A backlog that changes by less than this many entries per second stands still. */
const STILL = 0.5;
/** Messages that leave within this many seconds are in flight, not a backlog. */
const ON_ITS_WAY_S = 3;

/**
 * The state of a subscription. The cause of a backlog is the one that brokers find, as on all pages. `isHit`: the topic
 * itself has a problem, so that an empty backlog is no good sign.
 */
export function subscriptionState(
  subscription: Pick<
    SubscriptionRow,
    "lag" | "backlog" | "backlog_messages" | "net_rate" | "msg_rate_out" | "unacked"
  >,
  isHit = false,
): State {
  const { lag, backlog, backlog_messages, net_rate, msg_rate_out, unacked } = subscription;
  if (lag) return problemState(lag);
  const well = isHit ? "neutral" : "ok";
  // Delivered messages are counted in messages, so the pending ones must be, too.
  if (backlog_messages <= Math.max(unacked, ON_ITS_WAY_S * msg_rate_out))
    // One state for an empty subscription and for one whose messages are delivered: it would change with every message.
    return {
      tone: well,
      label: "Caught up",
      title: "All remaining messages are with its consumers, or on their way to them",
    };
  if (net_rate < -STILL)
    return {
      tone: "accent",
      label: `Empty in ${duration(backlog / -net_rate)}`,
      title: "At the pace of the last 20 seconds",
    };
  if (net_rate > STILL)
    return {
      tone: "neutral",
      label: "Growing",
      title: "More is published than acknowledged; the cause is shown when it lasts",
    };
  if (msg_rate_out > 0) return { tone: well, label: "Active", title: "Messages are sent to consumers" };
  return { tone: "neutral", label: "Waiting", title: "Messages wait; the cause is shown when it lasts" };
}

/** The subscriptions that do not drain and should. */
export function heldUp(subscriptions: readonly SubscriptionRow[]): SubscriptionRow[] {
  return subscriptions.filter(({ lag }) => lag && lag.severity !== "info");
}

/** The number of subscriptions by state, most frequent first: "3 subscriptions: 2 caught up, 1 growing". */
export function summaryOf(subscriptions: readonly SubscriptionRow[]): string {
  if (subscriptions.length === 0) return "No subscription reads this topic";
  const numberOf = new Map<string, number>();
  for (const subscription of subscriptions) {
    const { label } = subscriptionState(subscription);
    const state = label.charAt(0).toLowerCase() + label.slice(1);
    numberOf.set(state, (numberOf.get(state) ?? 0) + 1);
  }
  const whole = plural(subscriptions.length, "subscription");
  const [only] = numberOf.keys();
  if (numberOf.size === 1) return `${whole}: ${subscriptions.length > 1 ? "all " : ""}${only}`;
  const states = [...numberOf].sort(([, one], [, other]) => other - one);
  return `${whole}: ${states.map(([state, number]) => `${count(number)} ${state}`).join(", ")}`;
}
