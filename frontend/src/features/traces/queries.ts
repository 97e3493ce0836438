import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { TraceRequest } from "../../api/types";
import type { TopicId } from "../../shared/topic/queries";

const TRACES = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/traces";

export function tracesQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["traces", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) => answerOf(api.GET(TRACES, { params: { path: { ...id } }, signal })),
  });
}

/** Traces the next entries, in place of an earlier request. */
export function trace(id: TopicId, body: TraceRequest) {
  return answerOf(api.POST(TRACES, { params: { path: { ...id } }, body }));
}

/** Ends the tracing and deletes the traces. */
export function endTracing(id: TopicId) {
  return answerOf(api.DELETE(TRACES, { params: { path: { ...id } } }));
}

export function fileUrl(id: TopicId): string {
  const parts = [id.domain, id.tenant, id.namespace, id.topic].map(encodeURIComponent).join("/");
  return `/api/v1/clusters/${encodeURIComponent(id.cluster)}/topics/${parts}/traces/opentelemetry`;
}
