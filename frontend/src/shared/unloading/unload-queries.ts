import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];

export type UnloadPreview = Schemas["UnloadPreview"];
export type UnloadReceipt = Schemas["UnloadReceipt"];

/** The bundles to unload: those of a namespace, or those that a broker owns. */
export type Whose =
  | { cluster: string; tenant: string; namespace: string }
  | { cluster: string; broker: string };

type Body = { preview: true } | { preview: false; token: string };

function unload(whose: Whose, body: Body) {
  if ("broker" in whose)
    return answerOf(
      api.POST("/api/v1/clusters/{cluster}/brokers/{broker}/unload", {
        params: { path: { ...whose } },
        body,
      }),
    );
  return answerOf(
    api.POST("/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces/{namespace}/unload", {
      params: { path: { ...whose } },
      body,
    }),
  );
}

export function previewUnload(whose: Whose): Promise<UnloadPreview> {
  return unload(whose, { preview: true }) as Promise<UnloadPreview>;
}

/** The previewed change that belongs to this token. */
export function applyUnload(whose: Whose, token: string): Promise<UnloadReceipt> {
  return unload(whose, { preview: false, token }) as Promise<UnloadReceipt>;
}
