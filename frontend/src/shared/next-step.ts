import type { Lag } from "../api/types";
import { adminPath, subscriptionPath, type TopicPath } from "./commands/commands";
import { curl } from "./commands/shell";

/** An advice, as a place of the console or a line to copy. */
export type Step = { label: string } & ({ path: string } | { command: string });

/** The next step of an advice about a subscription; null where only its clients can act. */
export function nextStep(
  { cause, advice }: Pick<Lag, "advice"> & { cause: string },
  cluster: string,
  at: TopicPath,
  subscription: string,
): Step | null {
  const search = at.domain === "persistent" ? "" : `?domain=${at.domain}`;
  const topic = `/c/${encodeURIComponent(cluster)}/t/${[at.tenant, at.namespace, at.topic].map(encodeURIComponent).join("/")}`;
  const dialog = (act: string) =>
    `${topic}/subscriptions${search}${search ? "&" : "?"}act=${act}&sub=${encodeURIComponent(subscription)}`;
  switch (cause) {
    case "no-consumer":
      // Only where deleting is advised: after an outage it is not.
      return subscription && advice.includes("delete it")
        ? { label: "Delete the subscription…", path: dialog("delete") }
        : null;
    case "redelivery":
      return {
        label: "Copy the command that peeks",
        command: curl("GET", `${subscriptionPath({ ...at, subscription })}/position/1`),
      };
    case "unacked-limit":
    case "held":
    case "standby":
    case "no-permits":
    case "not-acknowledged":
      return { label: "Disconnect a consumer…", path: dialog("disconnect") };
    case "hot-key":
      return {
        label: "Copy the command that lists its consumers",
        command: curl("GET", `${adminPath(at)}/stats`),
      };
    case "rate-limit":
      return { label: "Policies", path: `${topic}/policies${search}` };
    case "slow":
    case "late":
      return { label: "Partitions", path: `${topic}/manage${search}` };
    case "storage":
      return { label: "Bookies", path: `/c/${encodeURIComponent(cluster)}/bookies` };
    default:
      return null;
  }
}
