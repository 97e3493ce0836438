import { answerOf, api } from "../../../api/client";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type BrokerDrain = Schemas["DrainedBroker"];
export type DrainPreview = Schemas["DrainPreview"];
export type DrainReceipt = Schemas["DrainReceipt"];
export type EndDrainPreview = Schemas["EndDrainPreview"];
export type EndDrainReceipt = Schemas["EndDrainReceipt"];

/** A drain that begins, or one that ends. */
export interface DrainChange {
  cluster: string;
  broker: string;
  ends: boolean;
}

type Body = { preview: true } | { preview: false; token: string };

function change({ ends, ...path }: DrainChange, body: Body) {
  const params = { path };
  return ends
    ? answerOf(api.POST("/api/v1/clusters/{cluster}/brokers/{broker}/drain/end", { params, body }))
    : answerOf(api.POST("/api/v1/clusters/{cluster}/brokers/{broker}/drain", { params, body }));
}

export function previewDrain(wanted: DrainChange): Promise<DrainPreview | EndDrainPreview> {
  return change(wanted, { preview: true }) as Promise<DrainPreview | EndDrainPreview>;
}

/** The previewed change that belongs to this token. */
export function applyDrain(wanted: DrainChange, token: string): Promise<DrainReceipt | EndDrainReceipt> {
  return change(wanted, { preview: false, token }) as Promise<DrainReceipt | EndDrainReceipt>;
}
