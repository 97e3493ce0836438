import { answerOf, api } from "../../../api/client";
import type { components } from "../../../api/schema";
import type { TopicId } from "../../../shared/topic/queries";

type Schemas = components["schemas"];
export type DeletionPreview = Schemas["SubscriptionPreview"];
export type DeletionReceipt = Schemas["SubscriptionReceipt"];
export type DisconnectPreview = Schemas["DisconnectPreview"];
export type DisconnectReceipt = Schemas["DisconnectReceipt"];

/** A consumer as a subscription's row lists it. */
export type Consumer = Pick<Schemas["ConsumerRow"], "name" | "address" | "partition">;

const SUBSCRIPTION =
  "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/subscriptions/{subscription}";

export function previewDeletion(id: TopicId, subscription: string, force: boolean) {
  const params = { path: { ...id, subscription } };
  const body = { preview: true, force };
  return answerOf(api.POST(`${SUBSCRIPTION}/delete`, { params, body })) as Promise<DeletionPreview>;
}

/** The previewed change that belongs to this token. */
export function applyDeletion(id: TopicId, subscription: string, token: string) {
  const params = { path: { ...id, subscription } };
  const body = { preview: false, token, force: false };
  return answerOf(api.POST(`${SUBSCRIPTION}/delete`, { params, body })) as Promise<DeletionReceipt>;
}

export function previewDisconnect(id: TopicId, subscription: string, consumer: Consumer) {
  const { name, address, partition } = consumer;
  const params = { path: { ...id, subscription } };
  const body = { preview: true, name, address, partition };
  return answerOf(api.POST(`${SUBSCRIPTION}/disconnect`, { params, body })) as Promise<DisconnectPreview>;
}

/** The consumer of the preview that belongs to this token, and no other. */
export function applyDisconnect(id: TopicId, subscription: string, token: string) {
  const params = { path: { ...id, subscription } };
  const body = { preview: false, token };
  return answerOf(api.POST(`${SUBSCRIPTION}/disconnect`, { params, body })) as Promise<DisconnectReceipt>;
}
