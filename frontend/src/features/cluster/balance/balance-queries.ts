import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../../api/client";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type Balance = Schemas["LoadBalance"];
export type BrokerLoad = Schemas["BrokerLoad"];
export type MovedBundle = Schemas["MovedBundle"];

/** Brokers report their loads at most every five seconds. */
const BALANCE_MS = 5_000;
const DRAIN_MS = 1_000;

/** The loads of brokers, and why bundles are moved or not. */
export function balanceQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "balance"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/load-balance", { params: { path: { cluster } }, signal })),
    refetchInterval: ({ state }) => (state.data?.drains.some(isMoving) ? DRAIN_MS : BALANCE_MS),
  });
}

/** Whether bundles of a drained broker may be moving now. */
function isMoving({ left }: Balance["drains"][number]): boolean {
  return left !== null && left > 0;
}
