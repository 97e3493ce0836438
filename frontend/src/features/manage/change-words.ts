import type { components } from "../../api/schema";
import { bytes, count, listed, plural } from "../../lib/format";
import { amount } from "../../shared/cursor/cursor-words";

type Schemas = components["schemas"];
export type TopicPreview = Schemas["TopicPreview"];
export type TopicReceipt = Schemas["TopicReceipt"];

export const CHANGES = ["partitions", "unload", "terminate", "delete"] as const;
export type TopicChange = (typeof CHANGES)[number];

interface Words {
  label: string;
  title: string;
  /** The purpose of the change, shown beside its button. */
  meaning: string;
}

export const WORDS: Record<TopicChange, Words> = {
  partitions: {
    label: "More partitions…",
    title: "More partitions",
    meaning: "Spreads the topic over more brokers. Partitions cannot be removed again.",
  },
  unload: {
    label: "Unload…",
    title: "Unload the topic",
    meaning: "Closes it on its broker; clients reconnect, and no message is lost.",
  },
  terminate: {
    label: "Terminate…",
    title: "Terminate the topic",
    meaning: "Blocks all publishing permanently. Stored messages stay readable.",
  },
  delete: {
    label: "Delete…",
    title: "Delete the topic",
    meaning: "Deletes the topic with its messages, subscriptions and policies.",
  },
};

/** The subscriptions with messages that they have not read, most first. */
export function losers(preview: TopicPreview): TopicPreview["subscriptions"] {
  return preview.subscriptions
    .filter(({ entries, messages }) => entries > 0 || (messages ?? 0) > 0)
    .sort((one, other) => other.entries - one.entries);
}

export const unreadOf = (of: TopicPreview["subscriptions"][number]): string =>
  amount(of.messages, of.entries, of.exact);

/** "12,000 unread messages of archiver", "unread messages of 3 subscriptions"; null for none. */
export function lossOf(preview: TopicPreview): string | null {
  const lost = losers(preview);
  const [first] = lost;
  if (!first) return null;
  return lost.length === 1
    ? `${unreadOf(first)} that ${first.name} has not read`
    : `messages that ${count(lost.length)} subscriptions have not read`;
}

export const consumersOf = (preview: TopicPreview) =>
  preview.subscriptions.flatMap(({ consumers }) => consumers);

/** The number of clients that a change disconnects: "2 producers and 1 consumer"; null for none. */
export function usersOf(preview: TopicPreview): string | null {
  const consumers = consumersOf(preview).length;
  const clients = [
    preview.producers.length > 0 && plural(preview.producers.length, "producer"),
    consumers > 0 && plural(consumers, "consumer"),
  ].filter((part) => part !== false);
  return clients.length === 0 ? null : listed(clients);
}

/** The button's label, which names the loss. */
export function applyLabel(change: TopicChange, preview: TopicPreview | undefined): string {
  if (!preview) return "Apply";
  switch (change) {
    case "delete": {
      const lost = losers(preview);
      const [only] = lost;
      if (!only) return "Delete topic";
      return lost.length === 1
        ? `Delete with ${unreadOf(only)} unread`
        : `Delete with unread messages of ${count(lost.length)} subscriptions`;
    }
    case "terminate":
      return preview.terminated ? "Terminated already" : "Terminate topic";
    case "unload":
      return "Unload topic";
    case "partitions":
      return `Raise to ${plural(preview.partitions_after ?? 0, "partition")}`;
  }
}

/** The part of the previewed change that was made. */
export function doneOf(change: TopicChange, preview: TopicPreview, receipt: TopicReceipt): string {
  switch (change) {
    case "delete":
      return `The topic was deleted with ${bytes(preview.bytes)}. No more was lost than was shown.`;
    case "terminate":
      return receipt.last.length > 0
        ? `The topic is terminated; its last message is ${receipt.last.join(", ")}.`
        : "The topic is terminated; it holds no message.";
    case "unload":
      return "The topic was closed on its broker. It is loaded again at its next use.";
    case "partitions":
      return `The topic has ${plural(preview.partitions_after ?? 0, "partition")} now.`;
  }
}
