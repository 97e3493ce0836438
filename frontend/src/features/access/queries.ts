import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import { SHOWN } from "../../shared/access/roles-query";
import type { Sort } from "../../ui/grid/sorting";

export type RoleRow = components["schemas"]["RoleRow"];
export type ReachRow = components["schemas"]["ReachRow"];

export function roleQuery(
  cluster: string,
  role: string,
  filter: { q: string | undefined; sort: Sort<"place">; page: number },
) {
  const { q, sort, page } = filter;
  return queryOptions({
    queryKey: ["roles", cluster, "role", role, filter],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/roles/{role}", {
          params: { path: { cluster, role }, query: given({ q, sort, ...rowsOf(page, SHOWN) }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}
