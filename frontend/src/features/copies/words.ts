import { count, plural } from "../../lib/format";
import type { TopicRef } from "../../shared/topic-link";
import type { Copy, CopyPreview, Group } from "./queries";

/** The parts of a topic's full name; null for a text that is none. */
export function refOf(name: string): TopicRef | null {
  const at = /^(persistent|non-persistent):\/\/([^/]+)\/(.+?)\/([^/]+)$/.exec(name);
  if (!at) return null;
  const [, domain = "", tenant = "", namespace = "", topic = ""] = at;
  return { domain, tenant, namespace, topic };
}

/** A topic's name without what all of them begin with. */
export const shortName = (name: string) => name.replace(/^persistent:\/\//, "");

/** The work of a copy, in a line. */
export function titleOf({ mode, topic, target, targets, undoes }: Copy): string {
  if (mode === "undo") return `Take back copy ${undoes} in ${targets.map(shortName).join(", ")}`;
  const verb = mode === "move" ? "Move" : target === null ? "Redrive" : "Copy";
  const to = target === null ? "its origins" : shortName(target);
  return `${verb} ${shortName(topic)} to ${to}`;
}

/** Amounts of a copy as far as it came. */
export function amountsOf({ mode, counts, entries }: Copy): string {
  const read = `${count(counts.scanned)} messages looked at`;
  const share =
    entries > 0 ? ` (${Math.min(Math.floor((100 * counts.entries) / entries), 100)} % of the range)` : "";
  const parts =
    mode === "undo"
      ? [
          `${count(counts.acknowledged)} skipped`,
          `${count(counts.consumed)} were consumed before`,
          counts.unclear > 0 && `${count(counts.unclear)} skipped or consumed while the undo was interrupted`,
        ]
      : [
          `${count(counts.copied)} stored`,
          counts.repeated > 0 && `${count(counts.repeated)} sent again and dropped by the broker`,
          mode === "move" && `${count(counts.acknowledged)} acknowledged`,
          counts.not_copied > 0 && `${count(counts.not_copied)} cannot be copied`,
        ];
  return [`${read}${share}`, ...parts.filter(Boolean)].join(" · ");
}

/** The share of the range that was read, from 0 to 1. */
export function shareOf({ counts, entries, state }: Copy): number {
  if (state === "succeeded") return 1;
  if (entries === 0) return 0;
  return Math.min(counts.entries / entries, 1);
}

/** The amount of a preview, which is the least one if not all was looked at. */
export function matchedText({ matched, mode, stopped }: CopyPreview): string {
  const least = stopped === "bound" ? "At least " : "";
  return `${least}${plural(matched, "message")} would be ${mode === "move" ? "moved" : "copied"}.`;
}

export function scannedText(seen: { scanned: number; scanned_entries: number; entries: number }): string {
  const rest = seen.entries > seen.scanned_entries;
  return rest
    ? `${count(seen.scanned)} messages were looked at, ${Math.floor((100 * seen.scanned_entries) / seen.entries)} % of what is stored.`
    : `All ${count(seen.scanned)} messages were looked at.`;
}

const keyOf = ({ origin, subscription, reason, shape }: Group) =>
  JSON.stringify([origin, subscription, reason, shape]);

/** Groups of several parts of a topic together, the largest first. */
export function joined(parts: readonly Group[][]): Group[] {
  const found = new Map<string, Group>();
  for (const group of parts.flat()) {
    const before = found.get(keyOf(group));
    found.set(
      keyOf(group),
      before
        ? {
            ...before,
            messages: before.messages + group.messages,
            bytes: before.bytes + group.bytes,
            first_published: Math.min(before.first_published, group.first_published),
            last_published: Math.max(before.last_published, group.last_published),
          }
        : group,
    );
  }
  return [...found.values()].sort((a, b) => b.messages - a.messages);
}
