// Texts about the stored data that saving a policy deletes. Uncounted data is never called none.

import { bytes, count, duration, plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { amount } from "../cursor/cursor-words";
import type { PolicyEffects } from "./policy-queries";

type Loser = PolicyEffects["subscriptions"][number];

const NAMED_MAX = 3;

export const unreadOf = (of: Loser): string => amount(of.messages, of.entries, of.exact);

/** "5 messages", "about 1,200 messages", "40 entries of messages" of all subscriptions; null where none loses any. */
export function lostOf(effects: PolicyEffects): string | null {
  if (effects.entries === 0) return null;
  const all = effects.subscriptions.length === effects.subscriptions_total;
  const known = effects.subscriptions.map(({ messages }) => messages);
  const summed =
    all && !known.includes(null) ? known.reduce<number>((sum, one) => sum + (one ?? 0), 0) : null;
  return amount(
    summed,
    effects.entries,
    effects.subscriptions.every(({ exact }) => exact),
  );
}

/** The time by which brokers apply it. */
export function whenOf(effects: PolicyEffects): string {
  return effects.within_s === 0 ? "at once" : `within ${duration(effects.within_s)}`;
}

/** The loss, for the head of a preview: unread messages, subscriptions, topics; empty when there is none. */
export function lossesOf(effects: PolicyEffects): string[] {
  const lost = lostOf(effects);
  const gone = effects.subscriptions.filter(({ deleted }) => deleted).length;
  const shown = effects.subscriptions.length;
  const deleted = gone === shown && effects.subscriptions_total > shown ? effects.subscriptions_total : gone;
  const [only] = effects.subscriptions;
  const whose =
    effects.subscriptions_total === 1 && only
      ? `that ${only.name} has not read`
      : `that ${count(effects.subscriptions_total)} subscriptions have not read`;
  return [
    lost && `${lost} ${whose} ${lost.startsWith("1 ") ? "is" : "are"} lost ${whenOf(effects)}`,
    deleted > 0 &&
      effects.deleted_total === 0 &&
      `${plural(deleted, "subscription")} deleted ${whenOf(effects)}`,
    effects.deleted_total > 0 &&
      `${plural(effects.deleted_total, "unused topic")} deleted ${whenOf(effects)}, unless used before`,
  ].filter((one) => typeof one === "string");
}

/** Further effects, each a sentence. */
export function remarksOf(effects: PolicyEffects): string[] {
  const nothing = lossesOf(effects).length === 0;
  const { counted, topics, at_rest: atRest, not_counted_total: missed } = effects;
  return [
    effects.bytes > 0
      ? `${bytes(effects.bytes)} of storage can be freed.`
      : nothing && counted > 0 && "No stored message is deleted now.",
    effects.producers > 0 &&
      `${plural(effects.producers, "producer")} would be disconnected: the backlog exceeds the quota.`,
    topics === 0 && "It applies to no stored topic.",
    counted < topics &&
      `Counted in ${count(counted)} of the ${plural(topics, "topic")} that it applies to. What the others lose is not known.`,
    atRest !== null &&
      atRest > 0 &&
      `${plural(atRest, "topic")} not loaded by any broker: it applies there once a client uses ${atRest === 1 ? "it" : "them"}.`,
    missed > 0 && `Not counted: ${notCounted(effects)}.`,
  ].filter((one) => typeof one === "string");
}

function notCounted(effects: PolicyEffects): string {
  const named = effects.not_counted
    .slice(0, NAMED_MAX)
    .map(({ name, reason }) => `${name} (${localized(reason)})`);
  const more = effects.not_counted_total - named.length;
  return [...named, ...(more > 0 ? [`${count(more)} more`] : [])].join(", ");
}

/** The button's label, which names the loss. */
export function saveLabel(verb: string, effects: PolicyEffects | null | undefined): string {
  if (!effects) return verb;
  const lost = lostOf(effects);
  if (effects.deleted_total > 0) return `${verb} and lose ${plural(effects.deleted_total, "topic")}`;
  return lost === null ? verb : `${verb} and lose ${lost}`;
}

/** The numbers counted right before saving, for the receipt. */
export function receiptOf(effects: PolicyEffects): string {
  const lost = lossesOf(effects);
  const freed = effects.bytes > 0 ? [`${bytes(effects.bytes)} of storage can be freed`] : [];
  const texts = [...lost, ...freed];
  return texts.length === 0 ? "No stored messages were deleted." : `${texts.join("; ")}.`;
}
