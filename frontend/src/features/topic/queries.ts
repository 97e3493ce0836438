import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { CursorAction, CursorPreview, CursorReceipt } from "../../api/types";

export interface TopicId {
  cluster: string;
  domain: "persistent" | "non-persistent";
  tenant: string;
  namespace: string;
  topic: string;
}

export function topicQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["topic", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}", {
          params: { path: { ...id } },
          signal,
        }),
      ),
  });
}

/** `timestamp` of a reset, in ms; `count` of a skip. */
export type CursorChange = { timestamp?: number; count?: number };

type Reset = { preview: boolean; timestamp: number };
type Skip = { preview: boolean; count: number };
const CURSOR =
  "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/subscriptions/{subscription}";

function changeCursor(
  id: TopicId,
  subscription: string,
  action: CursorAction,
  body: CursorChange & { preview: boolean },
) {
  const params = { path: { ...id, subscription } };
  switch (action) {
    case "reset":
      return answerOf(api.POST(`${CURSOR}/reset`, { params, body: body as Reset }));
    case "skip":
      return answerOf(api.POST(`${CURSOR}/skip`, { params, body: body as Skip }));
    case "skip-all":
      return answerOf(api.POST(`${CURSOR}/skip-all`, { params, body }));
  }
}

export function previewCursor(id: TopicId, subscription: string, action: CursorAction, change: CursorChange) {
  return changeCursor(id, subscription, action, { ...change, preview: true }) as Promise<CursorPreview>;
}

export function applyCursor(id: TopicId, subscription: string, action: CursorAction, change: CursorChange) {
  return changeCursor(id, subscription, action, { ...change, preview: false }) as Promise<CursorReceipt>;
}
