import type { SubscriptionRow } from "../../api/types";
import { duration } from "../../lib/format";
import { problemState, type State } from "../../shared/problems";

/** A backlog that changes by less than this many messages per second stands still. */
const STILL = 0.5;

/** What a subscription is doing. What keeps it from draining is said as brokers find it, here as everywhere. */
export function subscriptionState(
  subscription: Pick<SubscriptionRow, "lag" | "backlog" | "net_rate" | "msg_rate_out">,
): State {
  const { lag, backlog, net_rate, msg_rate_out } = subscription;
  if (lag) return problemState(lag);
  if (backlog === 0) return { tone: "ok", label: "Caught up", title: "No message waits" };
  if (net_rate < -STILL)
    return {
      tone: "accent",
      label: `Empty in ${duration(backlog / -net_rate)}`,
      title: "At the pace of the last 20 seconds",
    };
  if (msg_rate_out > 0) return { tone: "ok", label: "Active", title: "Messages go out" };
  return { tone: "neutral", label: "Waiting", title: "Messages wait; what keeps them is said when it lasts" };
}

/** The subscriptions that do not drain and should. */
export function heldUp(subscriptions: readonly SubscriptionRow[]): SubscriptionRow[] {
  return subscriptions.filter(({ lag }) => lag && lag.severity !== "info");
}
