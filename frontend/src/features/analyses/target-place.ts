import { parseNamespace } from "../../lib/url-state";
import type { Place } from "../../shared/access/may";

/** What an analysis reads as the place whose rights count for it. */
export function placeOfTarget(kind: string, target: string): Place {
  if (kind === "topic") return { topic: target };
  if (kind === "namespace") return parseNamespace(target);
  return kind === "tenant" ? { tenant: target } : {};
}
