import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { TopicId } from "../../shared/topic/queries";
import type { TopicChange, TopicPreview, TopicReceipt } from "./change-words";

const TOPIC = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}";

interface Body {
  preview: boolean;
  token?: string;
  partitions?: number;
}

function change(id: TopicId, what: TopicChange, body: Body) {
  const params = { path: { ...id } };
  switch (what) {
    case "delete":
      return answerOf(api.POST(`${TOPIC}/delete`, { params, body }));
    case "terminate":
      return answerOf(api.POST(`${TOPIC}/terminate`, { params, body }));
    case "unload":
      return answerOf(api.POST(`${TOPIC}/unload`, { params, body }));
    case "partitions":
      return answerOf(api.POST(`${TOPIC}/partitions`, { params, body }));
  }
}

export function previewChange(id: TopicId, what: TopicChange, partitions?: number): Promise<TopicPreview> {
  const given = partitions === undefined ? {} : { partitions };
  return change(id, what, { preview: true, ...given }) as Promise<TopicPreview>;
}

/** The previewed change that belongs to this token. */
export function applyChange(id: TopicId, what: TopicChange, token: string): Promise<TopicReceipt> {
  return change(id, what, { preview: false, token }) as Promise<TopicReceipt>;
}

export function propertiesQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["topic-properties", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) =>
      answerOf(api.GET(`${TOPIC}/properties`, { params: { path: { ...id } }, signal })),
  });
}

type Properties = Record<string, string>;

/** Has the topic the properties `value`, as long as it has `expected`. */
export function setProperties(id: TopicId, value: Properties, expected: Properties) {
  return answerOf(api.PUT(`${TOPIC}/properties`, { params: { path: { ...id } }, body: { value, expected } }));
}
