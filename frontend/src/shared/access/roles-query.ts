import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";

/** Rows shown of a list; the filter finds the others. */
export const SHOWN = 200;

export function rolesQuery(cluster: string, q: string) {
  return queryOptions({
    queryKey: ["roles", cluster, "list", q],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/roles", {
          params: { path: { cluster }, query: given({ q: q || undefined, limit: SHOWN }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}
