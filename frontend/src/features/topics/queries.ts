import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { Lag, SavedView, TopicPage } from "../../api/types";
import { stringifySearch } from "../../lib/url-state";

export const PAGE_ROWS = 100;

export interface TopicFilter {
  cluster: string;
  q?: string | undefined;
  tenant?: string | undefined;
  namespace?: string | undefined;
  domain?: "persistent" | "non-persistent" | undefined;
  attention?: Lag["cause"] | "any" | undefined;
  sort?: string | undefined;
}

export function topicsKey(filter: TopicFilter, offset: number) {
  return ["topics", filter, offset] as const;
}

export function topicsQuery(filter: TopicFilter, offset: number, limit = PAGE_ROWS) {
  const { cluster, ...rest } = filter;
  return queryOptions({
    queryKey: limit === PAGE_ROWS ? topicsKey(filter, offset) : [...topicsKey(filter, offset), limit],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics", {
          params: { path: { cluster }, query: given({ ...rest, offset, limit }) },
          signal,
        }),
      ),
    gcTime: 30_000,
  });
}

/** Tenants and namespaces whose names have the words of `q`. */
export function scopesQuery(cluster: string, q: string, limit: number, tenant?: string) {
  return queryOptions({
    queryKey: ["scopes", cluster, q, limit, tenant ?? ""],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/scopes", {
          params: { path: { cluster }, query: given({ q, tenant, limit }) },
          signal,
        }),
      ),
    staleTime: 5_000,
  });
}

/** The address of the complete list as a file. */
export function exportPath({ cluster, ...filter }: TopicFilter, format: "csv" | "json"): string {
  // Quotes would end a shell's: stringifySearch encodes them.
  const search = stringifySearch({ format, ...filter });
  return `/api/v1/clusters/${encodeURIComponent(cluster)}/topics/export${search}`;
}

/** Files a live window of the list under the pages it covers, so that scrolling finds them warm. */
export function writeTopicWindow(client: QueryClient, filter: TopicFilter, window: TopicPage): void {
  for (let start = 0; start < Math.max(1, window.rows.length); start += PAGE_ROWS) {
    const rows = window.rows.slice(start, start + PAGE_ROWS);
    const offset = window.offset + start;
    client.setQueryData(topicsKey(filter, offset), { ...window, offset, limit: PAGE_ROWS, rows });
  }
}

/** The saved views of this list. */
export const viewsQuery = queryOptions({
  queryKey: ["views", "topics"],
  queryFn: async ({ signal }) => {
    const params = { query: { resource: "topics" } };
    return (await answerOf(api.GET("/api/v1/views", { params, signal }))).rows;
  },
  staleTime: 30_000,
});

export function saveView(name: string, query: Record<string, string>): Promise<SavedView> {
  return answerOf(api.POST("/api/v1/views", { body: { name, resource: "topics", query } }));
}

export function renameView(id: string, name: string): Promise<SavedView> {
  const path = { view_id: Number(id) };
  return answerOf(api.PUT("/api/v1/views/{view_id}", { params: { path }, body: { name } }));
}

export async function deleteView(id: string): Promise<void> {
  const path = { view_id: Number(id) };
  await api.DELETE("/api/v1/views/{view_id}", { params: { path } });
}

/** The address of the list of a saved view. */
export function viewPath(cluster: string, view: SavedView): string {
  return `/c/${encodeURIComponent(cluster)}/topics${stringifySearch(view.query)}`;
}
