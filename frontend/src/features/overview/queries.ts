import { queryOptions, skipToken } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";

/** Waits until it is known which cluster the gateway serves. */
export function overviewQuery(cluster: string | undefined) {
  return queryOptions({
    queryKey: ["overview", cluster],
    queryFn:
      cluster === undefined
        ? skipToken
        : ({ signal }) =>
            answerOf(
              api.GET("/api/v1/clusters/{cluster}/overview", { params: { path: { cluster } }, signal }),
            ),
  });
}

/** The quarter of an hour before this page: read once, the live points continue it. */
export function overviewHistoryQuery(cluster: string) {
  return queryOptions({
    queryKey: ["overview-history", cluster],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/history", {
          params: { path: { cluster }, query: { minutes: 15 } },
          signal,
        }),
      ),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
}
