import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { CursorAction, CursorPreview, CursorReceipt } from "../../api/types";
import type { TopicId } from "../topic/queries";

/** `timestamp` of a reset, in ms; `count` of a skip, in entries; `id` of the change to undo. */
export type CursorChange = { timestamp?: number; count?: number; id?: string };

const CURSOR =
  "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/subscriptions/{subscription}";

function changeCursor(
  id: TopicId,
  subscription: string,
  action: CursorAction,
  body: CursorChange & { preview: boolean; token?: string },
) {
  const params = { path: { ...id, subscription } };
  switch (action) {
    case "reset":
      return answerOf(api.POST(`${CURSOR}/reset`, { params, body }));
    case "skip":
      return answerOf(api.POST(`${CURSOR}/skip`, { params, body }));
    case "skip-all":
      return answerOf(api.POST(`${CURSOR}/skip-all`, { params, body }));
    case "undo":
      return answerOf(api.POST(`${CURSOR}/undo`, { params, body }));
  }
}

export function previewCursor(id: TopicId, subscription: string, action: CursorAction, change: CursorChange) {
  return changeCursor(id, subscription, action, { ...change, preview: true }) as Promise<CursorPreview>;
}

/** The previewed change that belongs to this token. */
export function applyCursor(id: TopicId, subscription: string, action: CursorAction, token: string) {
  return changeCursor(id, subscription, action, { preview: false, token }) as Promise<CursorReceipt>;
}

/** Undoes a change at once; a 409 states why it needs a preview first. */
export function undoCursor(id: TopicId, subscription: string, change: string) {
  return changeCursor(id, subscription, "undo", { preview: false, id: change }) as Promise<CursorReceipt>;
}

/** The last change by hand of each subscription. */
export function changesQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["cursor-changes", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/changes", {
          params: { path: { ...id } },
          signal,
        }),
      ),
  });
}
