import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../../api/client";
import type { components } from "../../../api/schema";

type Schemas = components["schemas"];

export type Balance = Schemas["LoadBalance"];
export type BrokerLoad = Schemas["BrokerLoad"];
export type MovedBundle = Schemas["MovedBundle"];

/** Brokers report their loads at most every five seconds. */
const BALANCE_MS = 5_000;

/** The loads of brokers, and why bundles are moved or not. */
export function balanceQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "balance"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/load-balance", { params: { path: { cluster } }, signal })),
    refetchInterval: BALANCE_MS,
  });
}
