import { infiniteQueryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { type Commands, curl, path } from "../../shared/commands/shell";
import { MESSAGES } from "../../shared/messages/message";
import type { TopicId } from "../../shared/topic/queries";
import type { MessagesSearch } from "./search";

export type MessagesPage = components["schemas"]["MessagesAnswer"];

export const PAGE_ROWS = 50;
const PAGE_KEYS = 500;

/** The pages of a list, each behind the one before. They are not read again by themselves: a page is a search. */
export function messagesQuery(id: TopicId, search: MessagesSearch) {
  return infiniteQueryOptions({
    queryKey: ["messages", id.cluster, id.domain, id.tenant, id.namespace, id.topic, search],
    queryFn: ({ signal, pageParam: after }) =>
      answerOf(
        api.GET(MESSAGES, {
          params: { path: { ...id }, query: parametersOf(search, after) },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ after }) => after,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    retry: false,
  });
}

/** The parameters that are set. */
function parametersOf({ time, ...search }: MessagesSearch, after: string | undefined) {
  return {
    ...set(search),
    ...(time === undefined ? {} : { time: Number(time) }),
    ...(after === undefined ? {} : { after }),
    limit: search.compacted ? PAGE_KEYS : PAGE_ROWS,
  };
}

type Set<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function set<T extends object>(values: T): Set<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Set<T>;
}

export function exportUrl(id: TopicId, search: MessagesSearch, format: string, limit: string): string {
  return `${urlOf(id)}/export?${new URLSearchParams({ ...set(search), format, limit })}`;
}

const ONLY_HERE = { why: "Pulsar's tools read through a subscription." };

/** The search as a command. */
export function searchCommand(id: TopicId, search: MessagesSearch): Commands {
  const query = new URLSearchParams({ ...set(search), limit: "200" });
  return { curl: curl("GET", `${urlOf(id)}?${query}`), pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE };
}

function urlOf(id: TopicId): string {
  const segments = path(id.cluster, "topics", id.domain, id.tenant, id.namespace, id.topic);
  return `/api/v1/clusters/${segments}/messages`;
}
