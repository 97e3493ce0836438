import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { Sort } from "../../ui/grid/sorting";

export const ROLE_SORTS = ["role", "tenants", "namespaces", "grants"] as const;
export type RoleSort = Sort<(typeof ROLE_SORTS)[number]>;
/** Rows of a page. */
export const SHOWN = 200;

export function rolesQuery(cluster: string, q: string, sort: RoleSort = "role", page = 1) {
  return queryOptions({
    queryKey: ["roles", cluster, "list", q, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/roles", {
          params: {
            path: { cluster },
            query: given({ q: q || undefined, sort, ...rowsOf(page, SHOWN) }),
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}
