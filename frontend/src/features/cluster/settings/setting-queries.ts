import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../../api/client";
import { POLL_MS } from "../../../api/live";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type Setting = Schemas["SettingRow"];
export type SettingValue = Schemas["SettingValue"];
export type SettingPreview = Schemas["SettingPreview"];
export type SettingReceipt = Schemas["SettingReceipt"];

export function settingsQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "settings"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/settings", { params: { path: { cluster } }, signal })),
    refetchInterval: POLL_MS,
  });
}

const SETTING = "/api/v1/clusters/{cluster}/settings/{setting}";

/** The effect of storing `value`; null removes the stored value. */
export function previewSetting(cluster: string, setting: string, value: string | null) {
  const params = { path: { cluster, setting } };
  return answerOf(api.POST(SETTING, { params, body: { preview: true, value } })) as Promise<SettingPreview>;
}

/** The previewed change that belongs to this token. */
export function applySetting(cluster: string, setting: string, token: string) {
  const params = { path: { cluster, setting } };
  return answerOf(api.POST(SETTING, { params, body: { preview: false, token } })) as Promise<SettingReceipt>;
}
