import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { components } from "../../api/schema";

export type RoleRow = components["schemas"]["RoleRow"];
export type ReachRow = components["schemas"]["ReachRow"];

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
