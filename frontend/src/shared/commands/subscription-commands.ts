import { nameOf, type OfSubscription, pairs, subscriptionPath } from "./commands";
import { type Commands, curl, line } from "./shell";

function subscriptionDeletion(at: OfSubscription, { force }: { force: boolean }): Commands {
  return {
    curl: curl("DELETE", `${subscriptionPath(at)}${force ? "?force=true" : ""}`),
    pulsarctl: line(
      ...["pulsarctl", "subscriptions", "delete", force && "--force"],
      ...[nameOf(at), at.subscription],
    ),
    pulsarAdmin: line(
      ...["pulsar-admin", "topics", "unsubscribe", force && "--force"],
      ...["--subscription", at.subscription, nameOf(at)],
    ),
  };
}

/** The property that `engine/admin/api/rows.py` reads. */
export const AGE_TARGET = "magnetar.backlog-age-target-seconds";

/** Pulsar's interfaces replace all properties: `properties` are those that the subscription has. */
function ageTarget(
  at: OfSubscription,
  { seconds, properties }: { seconds: number | null; properties: Record<string, string> },
): Commands {
  const { [AGE_TARGET]: _, ...others } = properties;
  const value = seconds === null ? others : { ...others, [AGE_TARGET]: String(seconds) };
  return {
    curl: curl("PUT", `${subscriptionPath(at)}/properties`, value),
    pulsarctl: { why: "pulsarctl has no command for the properties of a subscription." },
    pulsarAdmin:
      Object.keys(value).length > 0
        ? line(
            ...["pulsar-admin", "topics", "update-subscription-properties", ...pairs("--property", value)],
            ...["--subscription", at.subscription, nameOf(at)],
          )
        : line(
            ...["pulsar-admin", "topics", "update-subscription-properties", "--clear"],
            ...["--subscription", at.subscription, nameOf(at)],
          ),
  };
}

/** Commands of changes of a subscription that only its topic's page offers. */
export const SUBSCRIPTION_COMMANDS = { deleteSubscription: subscriptionDeletion, setAgeTarget: ageTarget };
