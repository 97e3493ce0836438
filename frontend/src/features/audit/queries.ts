import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { components } from "../../api/schema";
import { stringifySearch } from "../../lib/url-state";

type Schemas = components["schemas"];

export type AuditRow = Schemas["AuditRow"];
export type AuditChange = Schemas["AuditChange"];
export type AuditVerification = Schemas["AuditVerification"];
export type AuditFilter = Record<string, string>;

export const PAGE_ROWS = 100;

/** A page of the entries up to the id `until`; without it, of all. */
export function auditQuery(filter: AuditFilter, sort: string, offset: number, until?: string) {
  return queryOptions({
    queryKey: ["audit", "list", filter, sort, offset, until],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/audit", {
          params: { query: given({ ...filter, sort, offset, limit: PAGE_ROWS, until_id: until }) as never },
          signal,
        }),
      ),
    gcTime: 30_000,
    refetchOnWindowFocus: false,
  });
}

/** An entry does not change once its outcome is known. */
export function entryQuery(id: string) {
  return queryOptions({
    queryKey: ["audit", "entry", id],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/audit/{entry_id}", { params: { path: { entry_id: Number(id) } }, signal })),
    refetchInterval: ({ state }) => (state.data?.status === null ? 5_000 : false),
  });
}

/** A verification that is made when it is first shown, and not repeated by itself: it reads all entries. */
export function verificationQuery() {
  return queryOptions({
    queryKey: ["audit", "verification"],
    queryFn: ({ signal }) => answerOf(api.GET("/api/v1/audit/verify", { signal })),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    retry: false,
  });
}

/** The address of all entries of a search as a file. */
export function exportPath(filter: AuditFilter): string {
  return `/api/v1/audit.csv${stringifySearch(filter)}`;
}
