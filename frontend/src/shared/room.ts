import type { Overview } from "../api/types";

export type RoomRow = Pick<
  Overview["bookies"][number],
  "free_bytes" | "total_bytes" | "usage" | "usage_limit" | "usage_writable" | "reason" | "state"
>;

const TIGHT = 0.85;
const FULL = 0.95;

/** What of a disk is used; null while nobody has told it. */
export function usedOf({
  free_bytes,
  total_bytes,
}: Pick<RoomRow, "free_bytes" | "total_bytes">): { bytes: number; share: number } | null {
  if (free_bytes === null || total_bytes === null || total_bytes <= 0) return null;
  const bytes = total_bytes - free_bytes;
  return { bytes, share: bytes / total_bytes };
}

/** Of a bookie's bar: red from its own limit on, at which it takes no more; without one by the usual limits. */
export function toneOfRoom(row: RoomRow, share: number): "bar" | "warn" | "bad" {
  const full = row.usage_limit ?? FULL;
  const used = Math.max(share, row.usage ?? 0);
  if (row.state === "read-only" || used >= full) return "bad";
  return used >= Math.min(TIGHT, full * 0.9) ? "warn" : "bar";
}

const percent = (share: number) => `${Math.round(share * 100)}\u00a0%`;

/** Why a bookie is read-only, and what it takes to be writable; null of one that is not. */
export function whyReadOnly(row: RoomRow): string | null {
  if (row.state !== "read-only") return null;
  const { usage, usage_limit: limit, usage_writable: below } = row;
  if (usage === null || limit === null || usage < limit) return row.reason || "The bookie reports no reason";
  const again = below !== null && below < limit ? `, writable again below ${percent(below)}` : "";
  return `Disk ${percent(usage)} full, limit ${percent(limit)}${again}`;
}
