import { count, duration, known, rate } from "../../lib/format";
import { delayOf, type Link } from "./joined-links";

/** A link with its figures in one sentence, as it is read aloud. */
export function linkWords(link: Link, now: number): string {
  const { from, to, sender, receiver, state, why } = link;
  const parts = [
    `${from} to ${to}: ${state}`,
    `${known(sender?.msg_rate ?? null, rate)} messages per second sent`,
    `${known(receiver?.received_msg_rate ?? null, rate)} received`,
    `backlog ${known(sender?.backlog ?? null, count)}`,
    `delay ${delayWords(link, now)}`,
    ...why,
  ];
  return parts.join(", ");
}

/** The delay of a link: a dash while it is not known, "none" without a backlog. */
export function delayWords({ sender }: Pick<Link, "sender">, now: number): string {
  const delay = delayOf(sender, now);
  if (delay === null) return "—";
  return delay === 0 ? "none" : duration(delay / 1000);
}
