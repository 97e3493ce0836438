import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { answerOf, api } from "../../api/client";
import type { ChartSeries } from "../../ui/charts/chart";
import type { Point } from "../../ui/charts/history";
import { dayBefore, joined } from "./past";
import { DAY_MINUTES, useComparesDays } from "./range";

const AGAIN_MS = 30_000;
/** Steps of days are five minutes long: so much more is read at both ends. */
const STEP_MINUTES = 5;

/** The server's history: of a topic by its full name, one of its subscriptions, a broker, a bookie, or of the totals. */
export interface Subject {
  topic?: string;
  subscription?: string;
  broker?: string;
  bookie?: string;
}

export function historyQuery(cluster: string, subject: Subject, minutes: number, ago = 0) {
  return queryOptions({
    queryKey: ["history", cluster, subject, minutes, ago],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/history", {
          params: { path: { cluster }, query: { ...subject, minutes, ...(ago > 0 && { ago }) } },
          signal,
        }),
      ),
    staleTime: AGAIN_MS / 2,
    refetchInterval: AGAIN_MS,
    placeholderData: (before) => before,
  });
}

/**
 * The last `minutes` of a subject, continued by the live points, whose values are `columns`; without `isRecorded` the
 * live points alone.
 */
export function usePast(
  cluster: string,
  subject: Subject,
  minutes: number,
  live: readonly Point[],
  columns: readonly string[],
  isRecorded = true,
): readonly Point[] {
  const recorded = useQuery({ ...historyQuery(cluster, subject, minutes), enabled: isRecorded }).data;
  return useMemo(() => joined(recorded, live, columns, minutes), [recorded, live, columns, minutes]);
}

/**
 * Adds to a chart's lines what they were a day before `points`, if the address asks for it. `columns`: those of the
 * lines.
 */
export function useWithYesterday(
  cluster: string,
  subject: Subject,
  minutes: number,
  points: readonly Point[],
  isRecorded = true,
): (columns: readonly string[], lines: ChartSeries[]) => ChartSeries[] {
  const compares = useComparesDays() && isRecorded;
  const before = useQuery({
    ...historyQuery(cluster, subject, minutes + 2 * STEP_MINUTES, DAY_MINUTES - STEP_MINUTES),
    enabled: compares,
  }).data;
  return useMemo(() => {
    if (!compares) return (_, lines) => lines;
    return (columns, lines) => [
      ...lines,
      ...columns.map((column, index) => ({
        label: `${lines[index]?.label}, a day before`,
        values: dayBefore(before, points, column),
        dashed: true,
      })),
    ];
  }, [compares, before, points]);
}
