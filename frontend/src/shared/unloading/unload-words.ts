import { count, plural } from "../../lib/format";
import type { UnloadPreview, UnloadReceipt, Whose } from "./unload-queries";

export function applyLabel(preview: UnloadPreview | undefined): string {
  if (!preview) return "Unload";
  if (preview.total === 0) return "Nothing to unload";
  return preview.token === null ? "Too many to be confirmed" : `Unload ${plural(preview.total, "bundle")}`;
}

/** What would be done. */
export function effectOf(whose: Whose, { total, unowned, owners }: UnloadPreview): string {
  if (total === 0)
    return "broker" in whose
      ? "It owns no bundle: there is nothing to give up."
      : "No broker owns a bundle of it: there is nothing to give up.";
  const [one] = owners;
  const isOne = owners.length === 1;
  const who = isOne && one ? one.broker : plural(owners.length, "broker");
  const act = isOne ? ["closes", "gives"] : ["close", "give"];
  const rest =
    unowned === 0
      ? ""
      : ` ${count(unowned)} more ${unowned === 1 ? "has no owner and stays" : "have no owner and stay"} so.`;
  return (
    `${who} ${act[0]} the topics of ${plural(total, "bundle")} and ${act[1]} ${total === 1 ? "it" : "them"} up. ` +
    `Whoever uses ${total === 1 ? "it comes back, to the broker that takes it" : "them comes back, to the brokers that take them"}. No stored message is lost.${rest}`
  );
}

export function remarksOf(whose: Whose, { total, owners, brokers }: UnloadPreview): string[] {
  if (total === 0) return [];
  const silent = owners.filter(({ state }) => state !== "up").map(({ broker }) => broker);
  return [
    ...(silent.length > 0
      ? [
          `${silent.join(", ")} ${silent.length === 1 ? "does" : "do"} not answer: what it owns cannot be given up before it answers, or before its session has ended.`,
        ]
      : []),
    "Messages that were delivered and are not acknowledged are delivered again.",
    takersOf(brokers),
    ...("broker" in whose
      ? [
          "While it runs, the broker takes bundles again. To have none left on it, stop it: a broker that is stopped hands all of them over.",
        ]
      : []),
  ];
}

function takersOf(brokers: number): string {
  if (brokers === 0) return "No broker answers: nobody takes them before one does.";
  return brokers === 1
    ? "Only one broker answers: it takes them again itself."
    : "The range of each decides which broker takes it next: it may be the same one.";
}

/** How many were given up, and who has those by now as far as that is known. */
export function doneOf({ total, done, owners }: UnloadReceipt): string {
  const given = `${done === total ? plural(total, "bundle") : `${count(done)} of ${plural(total, "bundle")}`} ${done === 1 ? "was" : "were"} given up.`;
  if (owners === null) return `${given} Who owns them now is not known: the metadata store does not answer.`;
  const taken = owners.filter(({ broker }) => broker !== "");
  const left = owners.find(({ broker }) => broker === "")?.bundles;
  const parts = [
    ...taken.map(({ broker, bundles }) => `${broker} owned ${count(bundles)}`),
    ...(left ? [`nobody ${taken.length > 0 ? "" : "owned "}${count(left)}`] : []),
  ];
  if (parts.length === 0) return given;
  if (done === 1)
    return `${given} Right after, ${left ? "it had no owner; one is assigned on first use" : `${taken[0]?.broker} owned it`}.`;
  const who = `Right after, ${parts.join(", ")} of them`;
  return left ? `${given} ${who}; an owner is assigned on first use.` : `${given} ${who}.`;
}

/** What became of the others, a sentence for each way; none when all were given up. */
export function othersOf({ left, failed, unknown }: UnloadReceipt): string[] {
  const were = (n: number) => `${plural(n, "bundle")} ${n === 1 ? "was" : "were"}`;
  return [
    ...(left > 0 ? [`${were(left)} left alone: not as previewed any more.`] : []),
    ...(failed > 0 ? [`${were(failed)} not given up.`] : []),
    ...(unknown > 0 ? [`It is not known whether ${were(unknown)} given up: look at the bundles.`] : []),
  ];
}

/** How many of those are not named. */
export function unnamedOf({ left, failed, unknown, others }: UnloadReceipt): number {
  return left + failed + unknown - others.length;
}
