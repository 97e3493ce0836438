import type { History } from "../../api/types";
import type { Point } from "../../ui/charts/history";

/**
 * The server's points, continued by later live ones in the same steps: means of rates, the last backlog. `columns` are
 * those of the live points; a column that the server lacks is not known.
 */
export function joined(
  recorded: History | undefined,
  live: readonly Point[],
  columns: readonly string[],
  minutes: number,
): readonly Point[] {
  if (!recorded) return live;
  const step = recorded.step_ms;
  const at = recorded.columns.indexOf("at");
  const places = columns.map((column) => recorded.columns.indexOf(column));
  const points: Point[] = recorded.points.map((point) => ({
    at: point[at] ?? 0,
    values: places.map((place) => point[place] ?? null),
  }));
  const begin = points.at(-1)?.at ?? 0;
  const steps = new Map<number, Point[]>();
  for (const point of live) {
    if (point.at <= begin) continue;
    const end = Math.ceil(point.at / step) * step;
    steps.set(end, [...(steps.get(end) ?? []), point]);
  }
  for (const [end, some] of steps) {
    const before = points.at(-1)?.at;
    if (before !== undefined && end - before > 2 * step)
      points.push({ at: before + step, values: columns.map(() => null) });
    const newest = some.at(-1) as Point;
    const values = columns.map((column, index) =>
      newest.values[index] == null || column === "backlog"
        ? (newest.values[index] ?? null)
        : mean(some, index),
    );
    points.push({ at: Math.min(end, newest.at), values });
  }
  const from = (points.at(-1)?.at ?? 0) - minutes * 60_000;
  return points.filter((point) => point.at >= from);
}

function mean(points: readonly Point[], index: number): number {
  const known = points.map((point) => point.values[index] ?? null).filter((value) => value !== null);
  return known.reduce((sum, value) => sum + value, 0) / known.length;
}

const DAY_MS = 86_400_000;

/** The value of a column a day before each point; null where it is not known. */
export function dayBefore(
  recorded: History | undefined,
  points: readonly Point[],
  column: string,
): (number | null)[] {
  const place = recorded?.columns.indexOf(column) ?? -1;
  const first = recorded?.points[0]?.[0];
  if (!recorded || place < 0 || first == null) return points.map(() => null);
  return points.map(({ at }) => {
    const step = Math.ceil((at - DAY_MS - first) / recorded.step_ms);
    return recorded.points[step]?.[place] ?? null;
  });
}
