import { count, plural } from "../../lib/format";
import type { Algorithm, BundlePreview, BundleReceipt, Wanted } from "./queries";

export const CUTS: Record<Algorithm, string> = {
  equally: "In the middle of its range",
  topics: "So that each part has as many topics",
  flow: "So that as much flows through each part",
};

export function applyLabel({ change }: Wanted, preview: BundlePreview | undefined): string {
  if (change === "unload")
    return preview && preview.row.state === "none" ? "Without an owner already" : "Unload bundle";
  if (!preview) return "Split bundle";
  return preview.parts.length === 0 ? "Nothing to cut" : `Split into ${count(preview.parts.length)}`;
}

/** What would be done. */
export function effectOf({ change }: Wanted, { row, parts }: BundlePreview): string {
  if (change === "split")
    return parts.length === 0
      ? "There is no place where it would be cut: too few topics, or too little flows."
      : "Its broker cuts it in two and serves the parts. Topics are served all the while.";
  if (row.state === "none") return "No broker owns it: there is nothing to give up.";
  return `${row.owner} closes its topics and gives it up. Whoever uses them comes back, to the broker that takes it. No stored message is lost.`;
}

export function remarksOf(wanted: Wanted, { row, brokers }: BundlePreview): string[] {
  const gives = wanted.change === "unload" || wanted.unload;
  return [
    ...(row.state === "down" || row.state === "slow"
      ? ["Its broker does not answer: it cannot be done before it does, or before its session has ended."]
      : []),
    ...(gives && row.state !== "none"
      ? [
          "Messages that were delivered and are not acknowledged are delivered again.",
          brokers > 1
            ? "Its range decides which broker takes it next: it may be the same one."
            : "Only one broker answers: the same one takes it again.",
        ]
      : []),
    ...(wanted.change === "split"
      ? [
          wanted.unload
            ? "Bundles are not joined again."
            : "Its parts stay on the same broker. Bundles are not joined again.",
        ]
      : []),
  ];
}

/** What was done, and no more than is known of it. */
export function doneOf(wanted: Wanted, { before, owner, parts }: BundleReceipt): string {
  if (wanted.change === "split") {
    const made = `The bundle is ${plural(parts.length, "bundle")} now`;
    return wanted.unload ? `${made}, and their broker gave them up.` : `${made}.`;
  }
  const gone = `${before} gave the bundle up.`;
  if (owner === null) return `${gone} Who owns it now is not known: the metadata store does not answer.`;
  if (owner === "")
    return `${gone} No broker owned it right after: the first one that is asked for it takes it.`;
  return owner === before ? `${gone} The same broker has taken it again.` : `${gone} ${owner} owns it now.`;
}

/** Hashes at which the parts of a preview meet. */
export function edgesOf({ parts }: BundlePreview): number[] {
  return parts.slice(1).map(({ bundle }) => Number.parseInt(bundle.split("_")[0] ?? "", 16));
}
