import * as z from "zod/mini";

// Filters, sort and scope live in the URL. Values are plain text (no JSON quoting), so links stay readable
// and a topic named "123" or "true" stays text. An unknown or broken value falls back; it never fails a page.

export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

/** Removes unset and empty values: the default view has a bare URL. */
export function stringifySearch(search: Record<string, unknown>): string {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") out.set(key, String(value));
  }
  const text = out.toString();
  return text ? `?${text}` : "";
}

/** A parameter with any text, up to the length of a usable address. */
export const searchText = z.catch(z.optional(z.string().check(z.maxLength(1000))), undefined);

/** A page of a list, from the second on. */
export const searchPage = z.catch(
  z.optional(z.coerce.number().check(z.int(), z.minimum(2), z.maximum(100_000))),
  undefined,
);

/** Page and order of a list. The page of the console, which is loaded later, checks the field of the order. */
export const listSearch = { page: searchPage, sort: searchText };

export interface TopicName {
  domain: "persistent" | "non-persistent";
  tenant: string;
  namespace: string;
  topic: string;
}

/** "tenant/namespace" → its parts; the namespace of a legacy name is "cluster/namespace". */
export function parseNamespace(name: string): { tenant: string; namespace: string } {
  const [tenant = "", ...below] = name.split("/");
  return { tenant, namespace: below.join("/") };
}

/**
 * "persistent://public/default/hello" → its parts, as the server splits it (engine.base.names.split_topic): three
 * slashes mean a legacy name, further ones belong to the local name. Null when it isn't a full topic name.
 */
export function parseTopicName(name: string): TopicName | null {
  const match = /^(persistent|non-persistent):\/\//.exec(name);
  if (!match) return null;
  const parts = name.slice(match[0].length).split("/");
  const [tenant = "", ...rest] = parts;
  const below = rest.splice(0, parts.length > 3 ? 2 : 1);
  const topic = rest.join("/");
  if (tenant === "" || below.includes("") || topic === "") return null;
  const domain = match[1] === "non-persistent" ? "non-persistent" : "persistent";
  return { domain, tenant, namespace: below.join("/"), topic };
}

/** The local name of the partitioned topic whose partition this is by its name; null when it is none (`split_partition`). */
export function partitionedOf(topic: string): string | null {
  return /^([\s\S]+)-partition-(?:0|[1-9][0-9]{0,9})$/.exec(topic)?.[1] ?? null;
}
