import { count, plural } from "../../../lib/format";
import { amount } from "../../../shared/cursor/cursor-words";
import type {
  DeletionPreview,
  DeletionReceipt,
  DisconnectPreview,
  DisconnectReceipt,
} from "./ending-queries";

/** Null: not known, as some of it cannot be read now. */
export function lossOf({ entries, messages, exact }: DeletionPreview): string | null {
  return entries === null
    ? null
    : amount(messages, entries, exact).replace(/(entr(?:y|ies) of )?messages?$/, "unacknowledged $&");
}

export const losesData = ({ entries, messages }: DeletionPreview): boolean =>
  entries === null || entries > 0 || (messages ?? 0) > 0;

/** Consumers are connected, and the user did not choose to disconnect them. */
export const isHeld = ({ consumers, force }: DeletionPreview): boolean => consumers.length > 0 && !force;

/** The button's label, which names the loss. */
export function deleteLabel(preview: DeletionPreview | undefined): string {
  if (!preview || !losesData(preview)) return "Delete subscription";
  return `Delete with ${lossOf(preview) ?? "messages that cannot be counted"}`;
}

export function deletionRemarks(preview: DeletionPreview): string[] {
  const { consumers, durable, partitions, token, unread } = preview;
  return [
    isHeld(preview)
      ? `${plural(consumers.length, "consumer")} ${consumers.length === 1 ? "is" : "are"} connected: stop ${consumers.length === 1 ? "it" : "them"} first, or choose to disconnect ${consumers.length === 1 ? "it" : "them"}.`
      : "It cannot be undone. Messages published until its deletion are lost to it, too.",
    ...(durable
      ? ["A consumer that connects under this name creates it again, without these messages."]
      : []),
    "Messages that no other subscription and no retention keeps are removed from storage.",
    ...(partitions > 0 ? [`It is deleted on ${plural(partitions, "partition")}.`] : []),
    ...unread.map(
      ({ partition, reason }) =>
        `Not known${partition === null ? "" : ` on partition ${partition}`}, because it cannot be read now: ${reason}.`,
    ),
    ...(token === null && !isHeld(preview) ? ["It cannot be confirmed here: too many clients use it."] : []),
  ];
}

/** The lost messages, as the brokers counted them at the deletion. */
export function deletedOf({ entries, later, parts }: DeletionReceipt): string {
  const where = parts.length > 1 ? ` on ${plural(parts.length, "partition")}` : "";
  const lost =
    entries === null
      ? "; how much it had not acknowledged is not known"
      : entries === 0
        ? "; it had acknowledged all"
        : ` with ${count(entries)} unacknowledged ${entries === 1 ? "entry" : "entries"}`;
  const since = later ? `, ${count(later)} of them published since the preview` : "";
  return `The subscription was deleted${where}${lost}${since}.`;
}

/** The effect on the consumer's unacknowledged messages, and on its client. */
export function disconnectRemarks({ consumers, others, type, durable }: DisconnectPreview): string[] {
  const held = consumers.reduce((sum, { unacked }) => sum + unacked, 0);
  const messages =
    held > 0
      ? `${plural(held, "message")} that it has not acknowledged ${held === 1 ? "is" : "are"}`
      : "Messages that it has not acknowledged are";
  const to =
    others > 0 && type !== "Exclusive" ? "other consumers, or to it again" : "it, or to the next consumer";
  return [
    "Its client may reconnect at once, as after an unload: to prevent that, stop its process.",
    `${messages} delivered again, to ${to}.`,
    ...(durable ? [] : ["The subscription is not durable: it is deleted unless a consumer reconnects."]),
  ];
}

export function disconnectedOf({ disconnected }: DisconnectReceipt): string {
  return disconnected === 1
    ? "The consumer was disconnected. Its client may have reconnected."
    : `${plural(disconnected, "consumer")} were disconnected. Their client may have reconnected.`;
}
