import { count, duration } from "../../lib/format";
import type { RulePreview } from "./queries";

export const KINDS = [
  { value: "attention", label: "What needs attention" },
  { value: "totals", label: "All topics together" },
  { value: "topic", label: "Each topic" },
  { value: "subscription", label: "Each subscription" },
  { value: "link", label: "Each link to a cluster" },
  { value: "broker", label: "Each broker" },
  { value: "bookie", label: "Each bookie" },
];

const OF_TOPICS = [
  { value: "backlog", label: "Backlog (messages)" },
  { value: "msg_rate_in", label: "Messages in per second" },
  { value: "msg_rate_out", label: "Messages out per second" },
  { value: "bytes_rate_in", label: "Bytes in per second" },
  { value: "bytes_rate_out", label: "Bytes out per second" },
  { value: "storage_bytes", label: "Stored bytes" },
  { value: "producers", label: "Producers" },
  { value: "consumers", label: "Consumers" },
  { value: "subscriptions", label: "Subscriptions" },
];

export const FIGURES: Record<string, { value: string; label: string }[]> = {
  attention: [],
  totals: [...OF_TOPICS, { value: "topics", label: "Topics" }],
  topic: [{ value: "oldest_age", label: "Age of the oldest message (s)" }, ...OF_TOPICS],
  subscription: [
    { value: "backlog", label: "Backlog" },
    { value: "msg_rate_out", label: "Messages out per second" },
  ],
  link: [
    { value: "backlog", label: "Backlog" },
    { value: "oldest_age", label: "Age of the oldest message (s)" },
    { value: "stopped", label: "Topics that are not sent" },
    { value: "messages", label: "Messages sent per second" },
    { value: "bytes", label: "Bytes sent per second" },
    { value: "received_messages", label: "Messages received per second" },
    { value: "received_bytes", label: "Bytes received per second" },
  ],
  broker: [
    { value: "report_age", label: "Time since its last report (s)" },
    { value: "topics", label: "Topics" },
    { value: "msg_rate_in", label: "Messages in per second" },
    { value: "msg_rate_out", label: "Messages out per second" },
    { value: "bytes_rate_in", label: "Bytes in per second" },
    { value: "bytes_rate_out", label: "Bytes out per second" },
  ],
  bookie: [
    { value: "usage", label: "Used of its fullest disk (%)" },
    { value: "free_bytes", label: "Free bytes of its disks" },
    { value: "used_bytes", label: "Used bytes of its disks" },
    { value: "stored_bytes", label: "Stored bytes of ledgers" },
    { value: "ledgers", label: "Ledgers" },
    { value: "read_only", label: "Read-only (1: it is)" },
    { value: "report_age", label: "Time since its last report (s)" },
  ],
};

/** Whether a rule of the kind is about brokers or bookies. */
export const isPart = (kind: string) => kind === "broker" || kind === "bookie";

/** Whether a rule of the kind may be about a part of the cluster's topics. */
export const hasScope = (kind: string) => kind !== "link" && !isPart(kind);

/** The result of a preview over history in one sentence. */
export function historyText({ times, recorded_s, subjects, of }: RulePreview): string {
  if (times === null) return "The recorded history cannot tell how often it would have fired.";
  const how = times === 1 ? "once" : `${count(times)} times`;
  const share = subjects === of ? "" : `, of ${count(subjects)} of ${count(of)} objects`;
  return `It would have fired ${how} in the recorded ${duration(recorded_s)}${share}.`;
}

/** "a, b" → the words between commas. */
export const wordsOf = (text: string): string[] =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
