import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../../api/client";
import { POLL_MS } from "../../../api/live";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type Repair = Schemas["RepairAnswer"];
export type MarkedLedger = Schemas["MarkedLedgerRow"];
export type LostBookie = Schemas["LostBookie"];
export type BookieDecommission = Schemas["DecommissionRow"];
export type BlastRadius = Schemas["BlastRadiusAnswer"];
export type WeakOwner = Schemas["WeakOwnerRow"];
export type CopiesCount = Schemas["CopiesCount"];
export type SwitchPreview = Schemas["RepairSwitchPreview"];
export type DelayPreview = Schemas["LostDelayPreview"];
export type AuditPreview = Schemas["AuditPreview"];
export type DecommissionPreview = Schemas["DecommissionPreview"];
export type WithdrawPreview = Schemas["WithdrawPreview"];

/** The kinds of change to the repair of a cluster. */
export type RepairChange =
  | { kind: "switch"; on: boolean }
  | { kind: "delay"; seconds: number }
  | { kind: "audit" }
  | { kind: "decommission"; bookie: string }
  | { kind: "withdraw"; bookie: string };

export type RepairPreview =
  | SwitchPreview
  | DelayPreview
  | AuditPreview
  | DecommissionPreview
  | WithdrawPreview;
export type RepairReceipt = { at: number };

const CLUSTER = "/api/v1/clusters/{cluster}";

export function repairQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "repair"],
    queryFn: ({ signal }) =>
      answerOf(api.GET(`${CLUSTER}/repair`, { params: { path: { cluster } }, signal })),
    refetchInterval: POLL_MS,
  });
}

export function blastRadiusQuery(cluster: string, bookie: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "blast-radius", bookie],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(`${CLUSTER}/bookies/{bookie}/blast-radius`, {
          params: { path: { cluster, bookie } },
          signal,
        }),
      ),
    gcTime: 0,
  });
}

type Body = { preview: true } | { preview: false; token: string };

function change(cluster: string, wanted: RepairChange, body: Body): Promise<unknown> {
  const params = { path: { cluster } };
  const asked = body.preview;
  switch (wanted.kind) {
    case "switch":
      return answerOf(
        api.POST(`${CLUSTER}/repair/switch`, {
          params,
          body: { ...body, ...(asked ? { on: wanted.on } : {}) },
        }),
      );
    case "delay":
      return answerOf(
        api.POST(`${CLUSTER}/repair/delay`, {
          params,
          body: { ...body, ...(asked ? { seconds: wanted.seconds } : {}) },
        }),
      );
    case "audit":
      return answerOf(api.POST(`${CLUSTER}/repair/audit`, { params, body }));
    case "decommission":
      return answerOf(
        api.POST(`${CLUSTER}/bookies/{bookie}/decommission`, {
          params: { path: { cluster, bookie: wanted.bookie } },
          body,
        }),
      );
    case "withdraw":
      return answerOf(
        api.POST(`${CLUSTER}/bookies/{bookie}/decommission/withdraw`, {
          params: { path: { cluster, bookie: wanted.bookie } },
          body,
        }),
      );
  }
}

export function previewRepair(cluster: string, wanted: RepairChange): Promise<RepairPreview> {
  return change(cluster, wanted, { preview: true }) as Promise<RepairPreview>;
}

/** The previewed change that belongs to this token. */
export function applyRepair(cluster: string, wanted: RepairChange, token: string): Promise<RepairReceipt> {
  return change(cluster, wanted, { preview: false, token }) as Promise<RepairReceipt>;
}
