import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { TopicId } from "../topic/queries";

type Schemas = components["schemas"];

export type Policy = Schemas["PolicyRow"];
export type Part = Schemas["PolicyPart"];
export type PolicyPreview = Schemas["PolicyPreview"];
export type PolicyReceipt = Schemas["PolicyReceipt"];
export type PolicyEffects = Schemas["PolicyEffects"];
export type ReplicationFlows = Schemas["ReplicationFlows"];

export interface NamespaceId {
  cluster: string;
  tenant: string;
  namespace: string;
}

/** The place of a policy. `topics`: stored ones of the namespace. */
export type PolicyPlace =
  | { level: "namespace"; id: NamespaceId; topics: number }
  | { level: "topic"; id: TopicId };

interface Body {
  preview: boolean;
  value?: unknown;
  token?: string;
}

const NAMESPACE = "/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces/{namespace}";
const TOPIC = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}";

function change(place: PolicyPlace, policy: string, body: Body) {
  if (place.level === "topic")
    return answerOf(
      api.POST(`${TOPIC}/policies/{policy}`, { params: { path: { ...place.id, policy } }, body }),
    );
  return answerOf(
    api.POST(`${NAMESPACE}/policies/{policy}`, { params: { path: { ...place.id, policy } }, body }),
  );
}

/** The effect of saving the value; null removes the stored value. */
export function previewPolicy(place: PolicyPlace, policy: string, value: unknown): Promise<PolicyPreview> {
  return change(place, policy, { preview: true, value }) as Promise<PolicyPreview>;
}

/** The previewed change that belongs to this token. */
export function savePolicy(place: PolicyPlace, policy: string, token: string): Promise<PolicyReceipt> {
  return change(place, policy, { preview: false, token }) as Promise<PolicyReceipt>;
}

export function topicPoliciesQuery(id: TopicId) {
  return queryOptions({
    queryKey: ["topic-policies", id.cluster, id.domain, id.tenant, id.namespace, id.topic],
    queryFn: ({ signal }) => answerOf(api.GET(`${TOPIC}/policies`, { params: { path: { ...id } }, signal })),
    refetchInterval: 10_000,
  });
}
