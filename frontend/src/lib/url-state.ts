import * as z from "zod/mini";

// Filters, sort and scope live in the URL. Values are plain text (no JSON quoting), so links stay readable
// and a topic named "123" or "true" stays text. An unknown or broken value falls back; it never fails a page.

export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

/** Leaves out what is unset or empty: the default view has a bare URL. */
export function stringifySearch(search: Record<string, unknown>): string {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") out.set(key, String(value));
  }
  const text = out.toString();
  return text ? `?${text}` : "";
}

const text = z.catch(z.optional(z.string().check(z.maxLength(1000))), undefined);

export const TOPIC_SORTS = [
  "topic",
  "tenant",
  "namespace",
  "producers",
  "consumers",
  "subscriptions",
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
const page = z.catch(
  z.optional(z.coerce.number().check(z.int(), z.minimum(2), z.maximum(100_000))),
  undefined,
);

export const topicsSearch = z.object({ q: text, tenant: text, namespace: text, domain, sort });
export const topicSearch = z.object({ domain: z.catch(z.optional(z.literal("non-persistent")), undefined) });
export const analysesSearch = z.object({ topic: text, analysis: text, page });
export const launchSearch = z.object({ topic: text, from: text });

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

export interface TopicName {
  domain: "persistent" | "non-persistent";
  tenant: string;
  namespace: string;
  topic: string;
}

/** "persistent://public/default/hello" → its parts; null when it isn't a full topic name. */
export function parseTopicName(name: string): TopicName | null {
  const match = /^(persistent|non-persistent):\/\/([^/]+)\/([^/]+)\/(.+)$/.exec(name);
  if (!match) return null;
  const [, scheme, tenant = "", namespace = "", topic = ""] = match;
  return { domain: scheme === "non-persistent" ? "non-persistent" : "persistent", tenant, namespace, topic };
}
