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

/** A parameter that is any text, up to what an address may well hold. */
export const searchText = z.catch(z.optional(z.string().check(z.maxLength(1000))), undefined);

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
