import type { Hop } from "../api/types";

const NAMES: Record<Hop["hop"], string> = {
  gateway: "Gateway",
  store: "Metadata store",
  database: "Console database",
  broker: "Broker",
  bookie: "Bookie",
  functions: "Functions worker",
  redis: "Redis",
  spark: "Analysis worker",
};
// Parts that block most others are first.
const ORDER = Object.keys(NAMES);

/** Names of the stores that may be apart from the metadata store. */
const STORES: Record<string, string> = {
  configuration: "Configuration store",
  bookkeeper: "BookKeeper metadata store",
  rest: "REST interface",
};

/** Kinds of which a cluster may have several. */
const HAS_ID = new Set<Hop["hop"]>(["broker", "bookie", "functions"]);

/** "Broker 10.0.0.1:8080" */
export function nameOfHop({ hop, id }: Hop): string {
  if (hop === "store") return STORES[id] ?? NAMES[hop];
  return id && HAS_ID.has(hop) ? `${NAMES[hop]} ${id}` : NAMES[hop];
}

const isCarrier = ({ hop }: Hop) => hop !== "redis" && hop !== "spark" && hop !== "functions";

/** Order: parts on the read path before functions workers, Redis and Spark, then failed ones, then by the number of dependents. */
export function ranked(hops: readonly Hop[]): Hop[] {
  const rank = (hop: Hop) =>
    (isCarrier(hop) ? 0 : 20) + (hop.state === "down" ? 0 : 10) + ORDER.indexOf(hop.hop);
  return [...hops].sort((one, other) => rank(one) - rank(other) || one.id.localeCompare(other.id));
}

/** The hop for which a page that has nothing to show waits. */
export function standsInTheWay(hops: readonly Hop[]): Hop | undefined {
  return ranked(hops).find((hop) => hop.state === "down" && isCarrier(hop));
}
