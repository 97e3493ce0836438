import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { SavedView } from "../../api/types";
import { stringifySearch } from "../../lib/url-state";

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

/** The lists that views are saved of, which are the last parts of their pages' paths. */
export type ViewedList = "topics" | "subscriptions";

/** All saved views; `viewsOf` selects those of one list. */
export const viewsQuery = queryOptions({
  queryKey: ["views"],
  queryFn: async ({ signal }) => (await answerOf(api.GET("/api/v1/views", { signal }))).rows,
  staleTime: 30_000,
});

export function viewsOf(list: ViewedList, views: readonly SavedView[]): SavedView[] {
  return views.filter((view) => view.resource === list);
}

export function saveView(list: ViewedList, name: string, query: Record<string, string>): Promise<SavedView> {
  return answerOf(api.POST("/api/v1/views", { body: { name, resource: list, query } }));
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
  return `/c/${encodeURIComponent(cluster)}/${view.resource}${stringifySearch(view.query)}`;
}

/** The search parameters of the list that a saved view stores: those that are set. */
export function viewOf(search: Record<string, string | number | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(search).flatMap(([key, value]) => (value ? [[key, String(value)]] : [])),
  );
}
