import { count, plural } from "../../lib/format";
import type { UnloadPreview, UnloadReceipt, Whose } from "./unload-queries";

export function applyLabel(preview: UnloadPreview | undefined): string {
  if (!preview) return "Unload";
  if (preview.total === 0) return "Nothing to unload";
  return preview.token === null ? "Too many to be confirmed" : `Unload ${plural(preview.total, "bundle")}`;
}

/** Text of the intended change. */
export function effectOf(whose: Whose, { total, unowned, owners }: UnloadPreview): string {
  if (total === 0)
    return "broker" in whose
      ? "It owns no bundle: there is nothing to unload."
      : "No broker owns a bundle of it: there is nothing to unload.";
  const [one] = owners;
  const isOne = owners.length === 1;
  const who = isOne && one ? one.broker : plural(owners.length, "broker");
  const act = isOne ? ["closes", "releases"] : ["close", "release"];
  const rest =
    unowned === 0
      ? ""
      : ` ${count(unowned)} more ${unowned === 1 ? "has no owner and stays" : "have no owner and stay"} so.`;
  return (
    `${who} ${act[0]} the topics of ${plural(total, "bundle")} and ${act[1]} ${total === 1 ? "it" : "them"}. ` +
    `Clients reconnect to the next ${total === 1 ? "owner" : "owners"}. No stored message is lost.${rest}`
  );
}

export function remarksOf(whose: Whose, { total, owners, brokers }: UnloadPreview): string[] {
  if (total === 0) return [];
  const silent = owners.filter(({ state }) => state !== "up").map(({ broker }) => broker);
  return [
    ...(silent.length > 0
      ? [
          `${silent.join(", ")} ${silent.length === 1 ? "does" : "do"} not answer: ${silent.length === 1 ? "its bundles cannot be unloaded until it answers or its session ends" : "their bundles cannot be unloaded until they answer or their sessions end"}.`,
        ]
      : []),
    "Unacknowledged messages are delivered again.",
    takersOf(brokers),
    ...("broker" in whose
      ? ["While it runs, the broker can own bundles again. To move all of them away for longer, drain it."]
      : []),
  ];
}

function takersOf(brokers: number): string {
  if (brokers === 0) return "No broker answers: the bundles have no owner until one does.";
  return brokers === 1
    ? "Only one broker answers: it owns them next."
    : "The range of each and the loads of brokers determine its next owner, which may be the same broker.";
}

/** The number of unloaded bundles, and their present owners as far as known. */
export function doneOf({ total, done, owners }: UnloadReceipt): string {
  const given = `${done === total ? plural(total, "bundle") : `${count(done)} of ${plural(total, "bundle")}`} ${done === 1 ? "was" : "were"} unloaded.`;
  if (owners === null) return `${given} Their owners are not known: the metadata store does not answer.`;
  const taken = owners.filter(({ broker }) => broker !== "");
  const left = owners.find(({ broker }) => broker === "")?.bundles;
  const parts = [
    ...taken.map(({ broker, bundles }) => `${broker} owned ${count(bundles)}`),
    ...(left ? [`no broker ${taken.length > 0 ? "" : "owned "}${count(left)}`] : []),
  ];
  if (parts.length === 0) return given;
  if (done === 1)
    return `${given} Right after, ${left ? "it had no owner; one is assigned on first use" : `${taken[0]?.broker} owned it`}.`;
  const who = `Right after, ${parts.join(", ")} of them`;
  return left ? `${given} ${who}; an owner is assigned on first use.` : `${given} ${who}.`;
}

/** The other bundles, one sentence for each result; empty when all were unloaded. */
export function othersOf({ left, failed, unknown }: UnloadReceipt): string[] {
  const were = (n: number) => `${plural(n, "bundle")} ${n === 1 ? "was" : "were"}`;
  return [
    ...(left > 0 ? [`${were(left)} skipped: changed since the preview.`] : []),
    ...(failed > 0 ? [`${were(failed)} not unloaded.`] : []),
    ...(unknown > 0 ? [`It is not known whether ${were(unknown)} unloaded: check the bundles.`] : []),
  ];
}

/** The number of bundles that are not named. */
export function unnamedOf({ left, failed, unknown, others }: UnloadReceipt): number {
  return left + failed + unknown - others.length;
}
