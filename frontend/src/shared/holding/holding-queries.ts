import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { TopicId } from "../topic/queries";

type Schemas = components["schemas"];
export type Holders = Schemas["HoldersAnswer"];
export type HoldingConsumer = Schemas["HoldingConsumer"];
export type UnackedEntry = Schemas["UnackedEntry"];
export type DelayedEntry = Schemas["DelayedEntry"];
export type KeyPlace = Schemas["KeyPlaceShape"];
export type MessageHolders = Schemas["MessageHoldersAnswer"];
export type MessageAtSubscription = Schemas["MessageAtSubscription"];
export type AcknowledgePreview = Schemas["AcknowledgeMessagePreview"];
export type AcknowledgeReceipt = Schemas["AcknowledgeMessageReceipt"];

/** A message that is to be acknowledged for a subscription. */
export interface Held {
  message: string;
  partition: number | null;
}

const TOPIC = "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}";
const SUBSCRIPTION = `${TOPIC}/subscriptions/{subscription}` as const;

export function holdersQuery(id: TopicId, subscription: string, key: string) {
  return queryOptions({
    queryKey: ["holders", id, subscription, key],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(`${SUBSCRIPTION}/holders`, {
          params: { path: { ...id, subscription }, query: key === "" ? {} : { key } },
          signal,
        }),
      ),
    gcTime: 0,
  });
}

export function messageHoldersQuery(id: TopicId, message: string) {
  return queryOptions({
    queryKey: ["message holders", id, message],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(`${TOPIC}/messages/{message}/holders`, { params: { path: { ...id, message } }, signal }),
      ),
    gcTime: 0,
  });
}

export function previewAcknowledgement(id: TopicId, subscription: string, held: Held) {
  const params = { path: { ...id, subscription } };
  const body = { preview: true, ...held };
  return answerOf(api.POST(`${SUBSCRIPTION}/acknowledge`, { params, body })) as Promise<AcknowledgePreview>;
}

/** The message of the preview that belongs to this token. */
export function applyAcknowledgement(id: TopicId, subscription: string, token: string) {
  const params = { path: { ...id, subscription } };
  const body = { preview: false, token };
  return answerOf(api.POST(`${SUBSCRIPTION}/acknowledge`, { params, body })) as Promise<AcknowledgeReceipt>;
}
