import { useContext, useMemo } from "react";
import { StaleContext } from "../states";
import { type Point, record } from "./history";

/**
 * Records the point a page just received and returns all points of that subject so far. While no numbers come, it
 * records that nothing is known: a gap, not a line.
 */
export function useHistory(
  subject: string,
  at: number | undefined,
  values: (number | null)[],
): readonly Point[] {
  const isStale = useContext(StaleContext) !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: one point per moment; record drops repeats
  return useMemo(() => {
    if (at === undefined) return [];
    const points = record(subject, at, values);
    const last = points.at(-1)?.at ?? at;
    return isStale
      ? record(
          subject,
          last + 1,
          values.map(() => null),
        )
      : points;
  }, [subject, at, isStale]);
}

/** Columns of a history as a chart wants them. */
export function columnsOf(
  points: readonly Point[],
  ...columns: number[]
): { xs: number[]; ys: (number | null)[][] } {
  return {
    xs: points.map((point) => point.at / 1000),
    ys: columns.map((column) => points.map((point) => point.values[column] ?? null)),
  };
}
