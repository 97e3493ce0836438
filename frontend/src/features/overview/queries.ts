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
