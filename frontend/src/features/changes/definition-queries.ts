import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { ChangeSet } from "../../shared/change-sets/change-queries";

export type DefinitionsDiff = components["schemas"]["DefinitionsDiff"];
export type DefinitionDifference = components["schemas"]["DefinitionDifference"];

const DEFINITIONS = "/api/v1/clusters/{cluster}/definitions";

export function exportUrl(cluster: string, format: "yaml" | "json"): string {
  return `/api/v1/clusters/${encodeURIComponent(cluster)}/definitions?format=${format}`;
}

export function compareDefinitions(cluster: string, text: string): Promise<DefinitionsDiff> {
  return answerOf(api.POST(`${DEFINITIONS}/diff`, { params: { path: { cluster } }, body: { text } }));
}

/** Creates the change set of exactly the differences with this digest. */
export function applyDefinitions(cluster: string, text: string, digest: string): Promise<ChangeSet> {
  const body = { text, digest };
  return answerOf(api.POST(`${DEFINITIONS}/apply`, { params: { path: { cluster } }, body }));
}
