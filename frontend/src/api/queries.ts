import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { get, post, topicPath } from "./client";
import { learnServerTime } from "./clock";
import type {
  Analysis,
  CursorAction,
  CursorPreview,
  CursorReceipt,
  Environment,
  Overview,
  OverviewHistory,
  Run,
  RunPage,
  TopicDetail,
  TopicPage,
} from "./types";

export const PAGE_ROWS = 100;

export interface TopicFilter {
  q?: string | undefined;
  tenant?: string | undefined;
  namespace?: string | undefined;
  domain?: string | undefined;
  sort?: string | undefined;
}

export interface TopicId {
  domain: string;
  tenant: string;
  namespace: string;
  topic: string;
}

export const environmentQuery = queryOptions({
  queryKey: ["environment"],
  queryFn: async ({ signal }) => {
    const environment = await get<Environment>("/environment", {}, signal);
    learnServerTime(environment.now);
    return environment;
  },
  staleTime: 60_000,
  refetchInterval: 60_000,
});

export const overviewQuery = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }) => get<Overview>("/overview", {}, signal),
});

/** The quarter of an hour before this page: read once, the live points continue it. */
export const overviewHistoryQuery = queryOptions({
  queryKey: ["overview-history"],
  queryFn: ({ signal }) => get<OverviewHistory>("/overview/history", {}, signal),
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
});

export function topicsKey(filter: TopicFilter, offset: number) {
  return ["topics", filter, offset] as const;
}

export function topicsQuery(filter: TopicFilter, offset: number, limit = PAGE_ROWS) {
  return queryOptions({
    queryKey: limit === PAGE_ROWS ? topicsKey(filter, offset) : [...topicsKey(filter, offset), limit],
    queryFn: ({ signal }) => get<TopicPage>("/topics", { ...filter, offset, limit }, signal),
    gcTime: 30_000,
  });
}

/** Files a live window of the list under the pages it covers, so that scrolling finds them warm. */
export function writeTopicWindow(client: QueryClient, filter: TopicFilter, window: TopicPage): void {
  for (let start = 0; start < Math.max(1, window.rows.length); start += PAGE_ROWS) {
    const rows = window.rows.slice(start, start + PAGE_ROWS);
    const offset = window.offset + start;
    client.setQueryData(topicsKey(filter, offset), { ...window, offset, limit: PAGE_ROWS, rows });
  }
}

export function topicQuery({ domain, tenant, namespace, topic }: TopicId) {
  return queryOptions({
    queryKey: ["topic", domain, tenant, namespace, topic],
    queryFn: ({ signal }) => get<TopicDetail>(topicPath(domain, tenant, namespace, topic), {}, signal),
  });
}

export const analysesQuery = queryOptions({
  queryKey: ["analyses"],
  queryFn: ({ signal }) => get<Analysis[]>("/analyses", {}, signal),
  staleTime: 60_000,
});

export const RUNS_PER_PAGE = 50;

export function runsQuery(filter: {
  topic?: string | undefined;
  analysis?: string | undefined;
  page: number;
}) {
  const { topic, analysis, page } = filter;
  return queryOptions({
    queryKey: ["runs", filter],
    queryFn: ({ signal }) =>
      get<RunPage>(
        "/runs",
        { topic, analysis, offset: (page - 1) * RUNS_PER_PAGE, limit: RUNS_PER_PAGE },
        signal,
      ),
    refetchInterval: 5_000,
  });
}

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) => get<Run>(`/runs/${encodeURIComponent(id)}`, {}, signal),
  });
}

export function startRun(analysis: string, parameters: Record<string, unknown>): Promise<Run> {
  return post<Run>("/runs", { analysis, parameters });
}

export function cancelRun(id: string): Promise<Run> {
  return post<Run>(`/runs/${encodeURIComponent(id)}/cancel`, {});
}

export type CursorChange = { timestamp?: number; count?: number };

function cursorPath(id: TopicId, subscription: string, action: CursorAction): string {
  const topic = topicPath(id.domain, id.tenant, id.namespace, id.topic);
  return `${topic}/subscriptions/${encodeURIComponent(subscription)}/${action}`;
}

export function previewCursor(id: TopicId, subscription: string, action: CursorAction, change: CursorChange) {
  return post<CursorPreview>(cursorPath(id, subscription, action), { preview: true, ...change });
}

export function applyCursor(id: TopicId, subscription: string, action: CursorAction, change: CursorChange) {
  return post<CursorReceipt>(cursorPath(id, subscription, action), { preview: false, ...change });
}
