import type { Overview } from "../../api/types";

export type RoomRow = Pick<
  Overview["bookies"][number],
  "free_bytes" | "total_bytes" | "usage" | "usage_limit" | "usage_writable" | "reason" | "state"
>;

const TIGHT = 0.85;
const FULL = 0.95;

/** The used share of a disk; null while no part has reported it. */
export function usedOf({
  free_bytes,
  total_bytes,
}: Pick<RoomRow, "free_bytes" | "total_bytes">): { bytes: number; share: number } | null {
  if (free_bytes === null || total_bytes === null || total_bytes <= 0) return null;
  const bytes = total_bytes - free_bytes;
  return { bytes, share: bytes / total_bytes };
}

/** The colour of a bookie's bar: red above its own limit, where it becomes read-only; else by the usual limits. */
export function toneOfRoom(row: RoomRow, share: number): "bar" | "warn" | "bad" {
  const full = row.usage_limit ?? FULL;
  const used = Math.max(share, row.usage ?? 0);
  if (row.state === "read-only" || used >= full) return "bad";
  return used >= Math.min(TIGHT, full * 0.9) ? "warn" : "bar";
}

const percent = (share: number) => `${Math.round(share * 100)}\u00a0%`;

/** The reason why a bookie is read-only, and the condition to become writable; null of one that is writable. */
export function whyReadOnly(row: RoomRow): string | null {
  if (row.state !== "read-only") return null;
  const { usage, usage_limit: limit, usage_writable: below } = row;
  if (usage === null || limit === null || usage < limit) return row.reason || "The bookie reports no reason";
  const again = below !== null && below < limit ? `, writable again below ${percent(below)}` : "";
  return `Disk ${percent(usage)} full, limit ${percent(limit)}${again}`;
}
