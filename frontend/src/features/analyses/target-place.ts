import { parseNamespace } from "../../lib/url-state";
import type { Place } from "../../shared/access/may";

/** The place whose rights count for an analysis of a target. */
export function placeOfTarget(kind: string, target: string): Place {
  if (kind === "topic") return { topic: target };
  if (kind === "namespace") return parseNamespace(target);
  return kind === "tenant" ? { tenant: target } : {};
}
