import { count, dateTime, plural } from "../../../lib/format";
import { localized } from "../../../lib/language/sentences";
import type { BrokerDrain, DrainPreview, EndDrainPreview } from "./drain-queries";

/** Progress of a drain, in a few words. */
export function progressOf({ left, moved, refused }: BrokerDrain): string {
  if (left === null) return "draining; progress not known";
  if (left === 0) return "drained";
  const stuck = refused.length > 0 ? `, ${count(refused.length)} cannot leave yet` : "";
  const done = moved === null || moved === 0 ? "" : `, ${count(moved)} moved`;
  return `draining: ${plural(left, "bundle")} left${done}${stuck}`;
}

/** A drain in a sentence. */
export function drainOf(drain: BrokerDrain): string {
  const { broker, since, by, left, unloaded } = drain;
  const who = by === "" ? "" : ` by ${by}`;
  const state =
    left === null
      ? "It does not answer: how many bundles it has is not known."
      : left === 0
        ? "It has no bundle and receives none."
        : `${plural(left, "bundle")} ${left === 1 ? "is" : "are"} left.`;
  const failed =
    unloaded === null || unloaded === 0
      ? ""
      : ` ${plural(unloaded, "bundle")} ${unloaded === 1 ? "was" : "were"} released for any broker, because the next owner failed.`;
  return `${broker} is drained since ${dateTime(since)}${who}. ${state}${failed}`;
}

/** The preview of a drain. */
export function effectOf(preview: DrainPreview): string {
  const { broker, problem, total, staying } = preview;
  if (problem !== "") return localized(`${problem}.`);
  if (total === 0) return `${broker} owns no bundle. It receives none until its drain ends.`;
  const leaving = total - staying;
  const moves =
    leaving === 0
      ? `None of the ${plural(total, "bundle")} of ${broker} can move.`
      : `${plural(leaving, "bundle")} ${leaving === 1 ? "moves" : "move"} from ${broker} to other brokers.`;
  const stays =
    staying > 0 && leaving > 0 ? ` ${plural(staying, "bundle")} ${staying === 1 ? "stays" : "stay"}.` : "";
  if (leaving === 0) return moves;
  return `${moves}${stays} ${leaving === 1 ? "Its" : "Their"} clients reconnect there. No stored message is lost.`;
}

export function remarksOf({ problem, state }: DrainPreview): string[] {
  if (problem !== "") return [];
  return [
    ...(state === "up" || state === ""
      ? []
      : [`The broker is ${state}: it moves its bundles when it answers.`]),
    "The broker goes on running and receives no bundle until the drain is ended, also after a restart.",
    "Unacknowledged messages are delivered again.",
  ];
}

/** The preview of the end of a drain. */
export function endOf({ drain }: EndDrainPreview): string {
  return `${drainOf(drain)} After the end it may receive bundles again; none moves back at once.`;
}
