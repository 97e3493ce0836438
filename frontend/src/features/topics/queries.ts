import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { Params } from "../../api/socket";
import type { Lag, TopicPage } from "../../api/types";
import { stringifySearch } from "../../lib/url-state";
import { type ListSource, PAGE_ROWS } from "../../shared/lists/use-list-window";

export interface TopicFilter extends Params {
  cluster: string;
  q?: string | undefined;
  tenant?: string | undefined;
  namespace?: string | undefined;
  domain?: "persistent" | "non-persistent" | undefined;
  attention?: Lag["cause"] | "any" | undefined;
  older_s?: number | undefined;
  sort?: string | undefined;
}

export function topicsQuery(filter: TopicFilter, offset: number, limit = PAGE_ROWS) {
  return queryOptions({
    queryKey: ["topics", filter, offset, limit],
    queryFn: ({ signal }) => readTopics(filter, offset, signal, limit),
    gcTime: 30_000,
  });
}

function readTopics(filter: TopicFilter, offset: number, signal: AbortSignal, limit = PAGE_ROWS) {
  const { cluster, ...rest } = filter;
  return answerOf(
    api.GET("/api/v1/clusters/{cluster}/topics", {
      params: { path: { cluster }, query: given({ ...rest, offset, limit }) },
      signal,
    }),
  );
}

export const TOPIC_LIST: ListSource<TopicFilter, TopicPage> = {
  channel: "topics",
  key: (filter, offset) => topicsQuery(filter, offset).queryKey,
  read: readTopics,
};

/** The address of the complete list as a file. */
export function exportPath({ cluster, ...filter }: TopicFilter, format: "csv" | "json"): string {
  // Quotes would end a shell's: stringifySearch encodes them.
  const search = stringifySearch({ format, ...filter });
  return `/api/v1/clusters/${encodeURIComponent(cluster)}/topics/export${search}`;
}
