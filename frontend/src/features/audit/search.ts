import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

export const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
/** Outcomes to search for; a link may have a single status instead. */
export const OUTCOMES = [
  { value: "", label: "Any outcome" },
  { value: "2xx", label: "Done" },
  { value: "4xx", label: "Refused" },
  { value: "5xx", label: "Failed" },
  { value: "unknown", label: "Outcome not seen" },
];

const moment = z.catch(z.optional(z.string().check(z.regex(/^\d{1,15}$/))), undefined);

export const AUDIT_SORTS = ["at", "actor", "operation", "status", "namespace"] as const;
export type AuditField = (typeof AUDIT_SORTS)[number];
export const NEWEST_FIRST = "-at";

export const auditSearch = z.object({
  sort: searchText,
  q: searchText,
  actor: searchText,
  role: searchText,
  operation: searchText,
  method: z.catch(z.optional(z.enum(METHODS)), undefined),
  status: z.catch(z.optional(z.string().check(z.regex(/^(\d{3}|[245]xx|unknown)$/))), undefined),
  /** A tenant, a namespace or a topic, by its full name. */
  where: searchText,
  from: moment,
  to: moment,
});

export type AuditSearch = z.infer<typeof auditSearch>;

/** The place that a text names: "acme", "acme/billing", "acme/billing/orders" or a topic with its domain. */
export function placeOf(where: string): { tenant?: string; namespace?: string; topic?: string } {
  const name = where.trim().replace(/\/+$/, "");
  if (name === "") return {};
  if (name.includes("://")) return { topic: name };
  const parts = name.split("/").length;
  if (parts === 1) return { tenant: name };
  return parts === 2 ? { namespace: name } : { topic: `persistent://${name}` };
}

/** The parameters of the search as the gateway reads them, without the order. */
export function filterOf({ where, sort: _, ...search }: AuditSearch): Record<string, string> {
  const all = { ...search, ...placeOf(where ?? "") };
  return Object.fromEntries(Object.entries(all).flatMap(([key, value]) => (value ? [[key, value]] : [])));
}
