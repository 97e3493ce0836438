import { answerOf, api } from "../../../api/client";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type RackSetting = Schemas["RackSetting"];
export type RackPreview = Schemas["RackPreview"];
export type RackReceipt = Schemas["RackReceipt"];

/** `rack` null: removes the bookie's setting. */
export interface Wanted {
  rack: string | null;
  group: string;
}

const RACK = "/api/v1/clusters/{cluster}/bookies/{bookie}/rack";

export function previewRack(cluster: string, bookie: string, wanted: Wanted) {
  const params = { path: { cluster, bookie } };
  return answerOf(api.POST(RACK, { params, body: { preview: true, ...wanted } })) as Promise<RackPreview>;
}

/** The previewed change that belongs to this token. */
export function applyRack(cluster: string, bookie: string, token: string) {
  const params = { path: { cluster, bookie } };
  const body = { preview: false, token, group: "default" };
  return answerOf(api.POST(RACK, { params, body })) as Promise<RackReceipt>;
}
