import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { TopicId } from "../topic/queries";

export type Message = components["schemas"]["MessageAnswer"];

export const MESSAGES = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/messages";

export function readMessage(id: TopicId, message: string, signal: AbortSignal): Promise<Message> {
  return answerOf(api.GET(`${MESSAGES}/{message}`, { params: { path: { ...id, message } }, signal }));
}

export function messageQuery(id: TopicId, message: string) {
  return queryOptions({
    queryKey: ["message", id.cluster, id.domain, id.tenant, id.namespace, id.topic, message],
    queryFn: ({ signal }) => readMessage(id, message, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function valueUrl(id: TopicId, message: string): string {
  const parts = [id.domain, id.tenant, id.namespace, id.topic].map(encodeURIComponent).join("/");
  const path = `clusters/${encodeURIComponent(id.cluster)}/topics/${parts}`;
  return `/api/v1/${path}/messages/${encodeURIComponent(message)}/value`;
}
