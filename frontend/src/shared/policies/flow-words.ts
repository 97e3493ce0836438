// Texts about a changed list of replication clusters. What is not known is never called none.

import { byteRate, bytes, known, plural, rate } from "../../lib/format";
import { amount } from "../cursor/cursor-words";
import type { ReplicationFlows } from "./policy-queries";

/** Losses of another cluster or of clients, in words; empty without any. */
export function endingsOf({ ends, leaves, topics }: ReplicationFlows): string[] {
  return [
    leaves &&
      `This cluster stops serving ${plural(topics, "topic")}: their clients are refused, or redirected to another cluster`,
    ...ends.map(
      ({ cluster, unsent, sending }) =>
        unsent > 0 &&
        `${amount(null, unsent, false)} ${sending ? "that are being sent " : ""}do not reach ${cluster} any more`,
    ),
  ].filter((text) => typeof text === "string");
}

/** Sentences about messages that begin to be sent, are kept, or are not known. */
export function flowRemarksOf({ starts, ends, leaves }: ReplicationFlows): string[] {
  return [
    ...starts.flatMap(({ cluster, msg_rate_in, bytes_rate_in, storage_bytes }) => [
      `${cluster} receives what is published from now on: ${known(msg_rate_in, rate)} messages/s, ${known(bytes_rate_in, byteRate)} at present.`,
      `Stored messages are not sent: ${known(storage_bytes, bytes)} stay here alone.`,
    ]),
    ...ends.flatMap(({ cluster, unknown }) => [
      `${cluster} keeps what it has received. If it is added again, sending starts with new messages.`,
      unknown > 0 && `Not known for ${plural(unknown, "topic")}: not loaded, or not sent there yet.`,
    ]),
    leaves && "The copy here is kept. It is served again once this cluster is added.",
  ].filter((text) => typeof text === "string");
}
