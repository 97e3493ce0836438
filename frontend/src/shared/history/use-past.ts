import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { answerOf, api } from "../../api/client";
import type { Point } from "../../ui/charts/history";
import { joined } from "./past";

const AGAIN_MS = 30_000;

/** The server's history: of a topic by its full name, of one of its subscriptions, or of the cluster's totals. */
export interface Subject {
  topic?: string;
  subscription?: string;
}

export function historyQuery(cluster: string, subject: Subject, minutes: number) {
  return queryOptions({
    queryKey: ["history", cluster, subject.topic ?? "", subject.subscription ?? "", minutes],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/history", {
          params: { path: { cluster }, query: { ...subject, minutes } },
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
