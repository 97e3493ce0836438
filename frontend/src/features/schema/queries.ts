import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import type { Candidate } from "../../api/types";
import type { TopicId } from "../../shared/topic/queries";

const SCHEMAS = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/schemas";

function keyOf(id: TopicId) {
  return ["schemas", id.cluster, id.domain, id.tenant, id.namespace, id.topic] as const;
}

/** The newest versions, or those before one. */
export function versionsQuery(id: TopicId, before?: number) {
  return queryOptions({
    queryKey: [...keyOf(id), "before", before ?? null],
    queryFn: ({ signal }) =>
      answerOf(api.GET(SCHEMAS, { params: { path: { ...id }, query: given({ before }) }, signal })),
  });
}

/** A version never changes; that it can be read may. */
export function versionQuery(id: TopicId, version: number) {
  return queryOptions({
    queryKey: [...keyOf(id), "version", version],
    queryFn: ({ signal }) =>
      answerOf(api.GET(`${SCHEMAS}/{version}`, { params: { path: { ...id, version } }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
}

export function judge(id: TopicId, body: Candidate) {
  return answerOf(api.POST(`${SCHEMAS}/verdict`, { params: { path: { ...id } }, body }));
}

export function rehearse(id: TopicId, candidate: Candidate, messages: number) {
  return answerOf(
    api.POST(`${SCHEMAS}/rehearsal`, { params: { path: { ...id } }, body: { ...candidate, messages } }),
  );
}

/** Only while `newest` is the newest version. */
export function register(id: TopicId, candidate: Candidate, newest: number) {
  return answerOf(api.POST(SCHEMAS, { params: { path: { ...id } }, body: { ...candidate, newest } }));
}

/** Only while `newest` is the newest version. */
export function deleteAll(id: TopicId, newest: number) {
  return answerOf(api.DELETE(SCHEMAS, { params: { path: { ...id }, query: { newest } } }));
}
