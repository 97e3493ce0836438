import { count, plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import type {
  Algorithm,
  BundlePreview,
  BundleReceipt,
  TransferPreview,
  TransferReceipt,
  Wanted,
} from "./queries";

export const CUTS: Record<Algorithm, string> = {
  equally: "In the middle of its range",
  topics: "So that each part has the same number of topics",
  flow: "So that each part has the same traffic",
};

export function applyLabel({ change }: Wanted, preview: BundlePreview | undefined): string {
  if (change === "unload")
    return preview && preview.row.state === "none" ? "Has no owner already" : "Unload bundle";
  if (!preview) return "Split bundle";
  return preview.parts.length === 0 ? "Nothing to split" : `Split into ${count(preview.parts.length)}`;
}

/** Text of the intended change. */
export function effectOf({ change }: Wanted, { row, parts }: BundlePreview): string {
  if (change === "split")
    return parts.length === 0
      ? "It cannot be split: it has too few topics, or too little traffic."
      : "Its broker splits it in two and serves the parts. Topics are served throughout.";
  if (row.state === "none") return "No broker owns it: there is nothing to unload.";
  return `${row.owner} closes its topics and releases it. Its clients reconnect to the broker that owns it next. No stored message is lost.`;
}

export function remarksOf(wanted: Wanted, { row, brokers }: BundlePreview): string[] {
  const gives = wanted.change === "unload" || (wanted.change === "split" && wanted.unload);
  return [
    ...(row.state === "down" || row.state === "slow"
      ? ["Its broker does not answer: the change is not possible until it answers or its session ends."]
      : []),
    ...(gives && row.state !== "none"
      ? [
          "Unacknowledged messages are delivered again.",
          brokers > 1
            ? "Its range and the loads of brokers determine the next owner, which may be the same broker."
            : "Only one broker answers: it owns the bundle next.",
        ]
      : []),
    ...(wanted.change === "split"
      ? [
          wanted.unload
            ? "Bundles cannot be merged again."
            : "Its parts stay on the same broker. Bundles cannot be merged again.",
        ]
      : []),
  ];
}

/** Text of the completed change, only as far as its result is known. */
export function doneOf(wanted: Wanted, { before, owner, parts }: BundleReceipt): string {
  if (wanted.change === "split") {
    const made = `The bundle was split into ${plural(parts.length, "bundle")}`;
    return wanted.unload ? `${made}, and their broker released them.` : `${made}.`;
  }
  const gone = `${before} released the bundle.`;
  if (owner === null) return `${gone} Its owner is not known: the metadata store does not answer.`;
  if (owner === "") return `${gone} No broker owned it right after: the first lookup assigns it.`;
  return owner === before ? `${gone} The same broker owns it again.` : `${gone} ${owner} owns it now.`;
}

/** Hashes at which the parts of a preview meet. */
export function edgesOf({ parts }: BundlePreview): number[] {
  return parts.slice(1).map(({ bundle }) => Number.parseInt(bundle.split("_")[0] ?? "", 16));
}

/** Text of the intended move. */
export function moveOf({ row, destination, problem }: TransferPreview): string {
  if (problem !== "") return localized(`${problem}.`);
  if (row.owner === "") return `No broker owns it: ${destination} acquires it and serves its topics.`;
  return `${row.owner} closes its topics and passes it to ${destination}, which serves them at once. Its clients are sent there. No stored message is lost.`;
}

export function moveRemarksOf({ row, destination, state, allowed, problem }: TransferPreview): string[] {
  if (problem !== "") return [];
  return [
    ...(row.state === "down" || row.state === "slow"
      ? ["Its broker does not answer: the change is not possible until it answers or its session ends."]
      : []),
    state === "up"
      ? "If the destination fails meanwhile, the bundle is unloaded only; any broker acquires it."
      : `${state === "" ? `Whether ${destination} answers is not known` : `${destination} does not answer`}: the bundle may be unloaded only.`,
    allowed === null
      ? "Whether isolation policies allow it there is not known: its owner decides."
      : "Isolation policies allow it there.",
    "Unacknowledged messages are delivered again. Load balance may move it again later.",
  ];
}

/** Text of the completed move, only as far as its result is known. */
export function movedOf({ before, destination, moved, reason, owner }: TransferReceipt): string {
  if (moved)
    return before === "" ? `${destination} owns it now.` : `It moved from ${before} to ${destination}.`;
  const rest =
    owner === null
      ? "Its owner is not known."
      : owner === ""
        ? "No broker owns it now."
        : `${owner} owns it now.`;
  return `It was unloaded and not moved: ${reason}. ${rest}`;
}
