import { useMemo } from "react";
import { type Point, record } from "./history";

/** Records the point a page just received and returns all points of that subject so far. */
export function useHistory(
  subject: string,
  at: number | undefined,
  values: (number | null)[],
): readonly Point[] {
  // biome-ignore lint/correctness/useExhaustiveDependencies: one point per moment; record drops repeats
  return useMemo(() => (at === undefined ? [] : record(subject, at, values)), [subject, at]);
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
