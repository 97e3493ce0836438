import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { PROBLEMS } from "./row-state";

export const TOPIC_SORTS = [
  "topic",
  "tenant",
  "namespace",
  "producers",
  "consumers",
  "subscriptions",
  "partitions",
  "msg_rate_in",
  "msg_rate_out",
  "bytes_rate_in",
  "bytes_rate_out",
  "backlog",
  "storage_bytes",
] as const;
export type TopicSort = (typeof TOPIC_SORTS)[number];

export type SortOrder = TopicSort | `-${TopicSort}`;

export const DEFAULT_SORT: SortOrder = "-backlog";

const sort = z.catch(
  z.optional(z.enum([...TOPIC_SORTS, ...TOPIC_SORTS.map((name) => `-${name}` as const)] as const)),
  undefined,
);
const domain = z.catch(z.optional(z.enum(["persistent", "non-persistent"])), undefined);

const attention = z.catch(
  z.optional(z.enum(["any", ...(Object.keys(PROBLEMS) as (keyof typeof PROBLEMS)[])])),
  undefined,
);

export const topicsSearch = z.object({
  q: searchText,
  tenant: searchText,
  namespace: searchText,
  domain,
  attention,
  sort,
  columns: searchText,
});

/** The next sort when a column's header is activated: numbers start at the largest, names at A. */
export function nextSort(current: string, column: TopicSort, startDescending: boolean): SortOrder {
  if (current === column) return `-${column}`;
  if (current === `-${column}`) return column;
  return startDescending ? `-${column}` : column;
}

/** How a column is sorted now, in ARIA's words. */
export function sortOf(current: string, column: string): "ascending" | "descending" | "none" {
  if (current === column) return "ascending";
  return current === `-${column}` ? "descending" : "none";
}
