import type { components } from "../../api/schema";
import { bytes, count, plural, tenths } from "../../lib/format";
import type { Message } from "../../shared/messages/message";
import type { MessagesPage } from "./queries";

export type Compacted = components["schemas"]["CompactedShape"];

const keyOf = (partition: number, key: string | null) => `${partition} ${key}`;

/** The rows of all pages: a later page replaces the keys that it has, and removes those that it says are gone. */
export function latestRows(pages: readonly MessagesPage[]): Message[] {
  const latest = new Map<string, Message>();
  for (const { rows, compacted } of pages) {
    for (const { partition, key } of compacted?.removed ?? []) latest.delete(keyOf(partition, key));
    for (const row of rows) {
      const key = keyOf(row.partition, row.key);
      // Removed first: rows are in the order of their messages.
      latest.delete(key);
      latest.set(key, row);
    }
  }
  return [...latest.values()];
}

/** Keys without a value at the end of the pages: a key may be deleted, published and deleted again. */
export function goneKeys(pages: readonly MessagesPage[]): number {
  const gone = new Set<string>();
  for (const { rows, compacted } of pages) {
    for (const { partition, key } of rows) gone.delete(keyOf(partition, key));
    for (const { partition, key } of compacted?.removed ?? []) gone.add(keyOf(partition, key));
  }
  return gone.size;
}

/** Up to where the topic was compacted. */
export function horizonText(page: MessagesPage): string {
  const horizons = page.compacted?.horizons ?? [];
  const known = horizons.filter(({ position }) => position !== null);
  if (known.length === 0) return "It was not compacted: all of it is looked at.";
  if (page.partitions === 0) return `It was compacted up to ${known[0]?.position}.`;
  return `${count(known.length)} of its ${plural(page.partitions, "partition")} were compacted.`;
}

/** The progress over all pages. */
export function latestText(pages: readonly MessagesPage[]): string {
  const sum = (value: (page: MessagesPage) => number) => pages.reduce((all, page) => all + value(page), 0);
  const of = (name: "without_key" | "undecoded" | "incomplete") =>
    sum(({ compacted }) => compacted?.[name] ?? 0);
  const gone = goneKeys(pages);
  const seconds = sum(({ took_ms }) => took_ms) / 1000;
  const last = pages.at(-1);
  const parts = [
    `${plural(latestRows(pages).length, "key")} shown, ${count(gone)} deleted or not matching, ` +
      `of ${plural(
        sum(({ scanned }) => scanned),
        "message",
      )} looked at, ` +
      `${bytes(sum((page) => page.bytes))} in ${tenths(seconds)} s.`,
  ];
  if (of("without_key") > 0) parts.push(`${plural(of("without_key"), "message")} without a key not shown.`);
  if (of("undecoded") > 0)
    parts.push(
      `${plural(of("undecoded"), "stored part", "stored parts")} not shown: of messages in chunks, or not readable.`,
    );
  if (of("incomplete") > 0)
    parts.push(`${plural(of("incomplete"), "message")} in chunks of which some are missing not shown.`);
  if (last) parts.push(horizonText(last), endText(last));
  return parts.join(" ");
}

function endText({ stopped, missing }: MessagesPage): string {
  switch (stopped) {
    case "end":
      return missing.length === 0
        ? "These are the latest values."
        : "These are the latest values of the partitions that answered.";
    case "limit":
      return "Stopped at the number of keys for one read. Later messages may replace or delete these.";
    case "bytes":
      return "Stopped at the limit of bytes for one read. Later messages may replace or delete these.";
    case "time":
      return "Stopped at the time limit for one read. Later messages may replace or delete these.";
  }
}
