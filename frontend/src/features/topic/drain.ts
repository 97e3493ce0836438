import type { SubscriptionRow } from "../../api/types";
import { duration, plural, rate, signedRate } from "../../lib/format";
import type { Tone } from "../../ui/badge";

export interface DrainText {
  tone: Tone;
  label: string;
  detail: string;
}

/** What a subscription's backlog is doing, in words, and when it will be gone at the present rates. */
export function describeDrain(subscription: SubscriptionRow): DrainText {
  const { drain, net_rate, consumers, msg_rate_out, backlog } = subscription;
  switch (drain.state) {
    case "empty":
      return { tone: "ok", label: "Caught up", detail: "no backlog" };
    case "draining":
      return {
        tone: "accent",
        label: drain.eta_s === null ? "Draining" : `Empty in ${duration(drain.eta_s)}`,
        detail: `shrinking by ${rate(Math.abs(net_rate))}/s`,
      };
    case "growing":
      return {
        tone: "bad",
        label: "Growing",
        detail: consumers.length === 0 ? "no consumer connected" : `${signedRate(Math.abs(net_rate))}/s`,
      };
    case "stalled":
      return {
        tone: "warn",
        label: "Stalled",
        detail:
          consumers.length === 0
            ? "no consumer connected"
            : msg_rate_out === 0
              ? `${plural(consumers.length, "consumer")}, nothing delivered`
              : `${plural(backlog, "message")} not shrinking`,
      };
  }
}
