import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { SHOWN } from "../../shared/access/roles-query";

export type RoleRow = components["schemas"]["RoleRow"];
export type ReachRow = components["schemas"]["ReachRow"];

export function roleQuery(cluster: string, role: string, offset: number) {
  return queryOptions({
    queryKey: ["roles", cluster, "role", role, offset],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/roles/{role}", {
          params: { path: { cluster, role }, query: { offset, limit: SHOWN } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}
