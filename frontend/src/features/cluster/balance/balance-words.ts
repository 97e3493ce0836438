import { age, plural, rate } from "../../../lib/format";
import type { Balance, BrokerLoad, MovedBundle } from "./balance-queries";

/** 0.256 → "25.6 %" */
export function percent(share: number): string {
  return `${rate(share * 100)} %`;
}

/** The spread of the loads; without a plan the begin of a sentence that the reason of the broker, `unplanned`, ends. */
export function stateOf({ leader, reason, spread, spread_max, loads }: Balance): string {
  if (reason !== "")
    return leader === null
      ? "No broker leads now: no bundle is moved for its load until one does. Bundles without an owner still receive one."
      : `${leader} leads, and there is no plan:`;
  const leads = `${leader} leads.`;
  if (loads.length === 1) return `${leads} There is one broker only: nothing can be moved.`;
  if (spread === null) return `${leads} Fewer than two loads are known: the standard deviation is not known.`;
  const limit = spread_max === null ? "" : `; bundles are moved above ${percent(spread_max)}`;
  return `${leads} The standard deviation of the loads is ${percent(spread)}${limit}.`;
}

/** The leader's reason, in its own words, for the absence of a plan; empty without one. */
export function unplanned({ leader, reason }: Balance): string {
  return leader === null ? "" : reason;
}

/** Head of the reasons for which bundles stay; `moves` are the last ones, of any plan. */
export function staysOf({ at, moves }: Balance): string {
  return moves.some((move) => move.kind === "balance" && move.at === at)
    ? "Nothing else is moved because …"
    : "Nothing is moved because …";
}

export function ageOf({ at }: BrokerLoad, now: number): string {
  if (at === null) return "no report yet";
  const text = age(at, now);
  return text === "now" ? "reported now" : `reported ${text} ago`;
}

/** Numbers of bundles that a broker acquired and lost since its report before; empty without any. */
export function changesOf({ gains, losses }: BrokerLoad): string {
  if (gains === null || losses === null) return "";
  return [
    gains > 0 && plural(gains, "bundle acquired", "bundles acquired"),
    losses > 0 && plural(losses, "bundle lost", "bundles lost"),
  ]
    .filter(Boolean)
    .join(", ");
}

/** From where to where a bundle was moved, or which broker split it. */
export function routeOf({ kind, from_broker, to_broker }: MovedBundle): string {
  if (kind === "split") return `split by ${from_broker}`;
  const why = kind === "drain" ? ", drained" : kind === "operator" ? ", by request" : "";
  return `${from_broker} → ${to_broker}${why}`;
}

/** The result of a move in words. */
export function resultOf(result: string): string {
  return result === "" ? "not known" : result;
}
