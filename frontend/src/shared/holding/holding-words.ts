import { dateTime, plural } from "../../lib/format";
import type { AcknowledgePreview, KeyPlace, MessageAtSubscription } from "./holding-queries";

interface Holder {
  name: string;
  address: string;
}

export function holderText({ name, address }: Holder): string {
  return `${name} (${address})`;
}

/** The place of a message at one subscription. */
export function stateText(at: MessageAtSubscription, deliverAt: number | null): string {
  const holder = at.consumer && holderText(at.consumer);
  switch (at.state) {
    case "acknowledged":
      return "acknowledged";
    case "delivered":
      return `at ${holder}, not acknowledged`;
    case "delayed":
      return deliverAt === null ? "delayed" : `delayed until ${dateTime(deliverAt)}`;
    case "unknown":
      return `delivered to ${holder} or waiting for it: the consumer reads the compacted topic`;
    case "waiting":
      if (at.waits_for)
        return `waits for ${holder}, until ${holderText(at.waits_for)} has acknowledged its messages of the same hash`;
      return holder ? `waits for ${holder}` : "waits for a consumer";
  }
}

/** The times that a message was given back. */
export function redeliveredText(times: number): string {
  return times === 0 ? "—" : plural(times, "time");
}

export function rangeText([first, last]: readonly number[]): string {
  return `${first}–${last}`;
}

/** The consumer that a key goes to, on one partition. */
export function keyText({ partition, slot, consumer, range, waits_for }: KeyPlace): string {
  const where = partition === null ? "" : `partition ${partition}: `;
  if (!consumer) return `${where}hash ${slot}, which no consumer has`;
  const of = range ? ` of ${rangeText(range)}` : "";
  const waits = waits_for
    ? `; it waits until ${holderText(waits_for)} has acknowledged what it has of it`
    : "";
  return `${where}hash ${slot}${of} goes to ${holderText(consumer)}${waits}`;
}

/** The effects of an acknowledgement of a message. */
export function acknowledgeRemarks(preview: AcknowledgePreview): string[] {
  const remarks = ["It is not delivered to this subscription any more. Other subscriptions keep it."];
  const holder = preview.consumer && holderText(preview.consumer);
  if (preview.state === "delivered")
    remarks.push(`${holder} has received it, and may have processed it or be processing it.`);
  if (preview.state === "delayed" && preview.deliver_at !== null)
    remarks.push(`It would be delivered at ${dateTime(preview.deliver_at)}.`);
  if (!/:.*:/.test(preview.message)) remarks.push("All messages of its batch are acknowledged with it.");
  remarks.push("A reset of the subscription to an earlier position delivers it again.");
  return remarks;
}
