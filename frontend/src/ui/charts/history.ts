// Live points received while the console is open, for the charts: a bounded ring per subject.

export const POINTS_MAX = 600;
const SUBJECTS_MAX = 40;

export interface Point {
  at: number;
  values: (number | null)[];
}

const rings = new Map<string, Point[]>();

/** Drops all points: they were recorded for another viewer. */
export function forgetHistory(): void {
  rings.clear();
}

/** Adds a point; a point not newer than the last replaces nothing and is dropped. Returns the new ring. */
export function record(subject: string, at: number, values: (number | null)[]): readonly Point[] {
  const before = rings.get(subject) ?? [];
  const last = before.at(-1);
  if (last && at <= last.at) return before;
  const after = before.length >= POINTS_MAX ? before.slice(1 - POINTS_MAX) : before.slice();
  after.push({ at, values });
  rings.delete(subject);
  rings.set(subject, after);
  if (rings.size > SUBJECTS_MAX) {
    const oldest = rings.keys().next().value;
    if (oldest !== undefined) rings.delete(oldest);
  }
  return after;
}
