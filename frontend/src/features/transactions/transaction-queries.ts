import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];
export type Coordinator = Schemas["CoordinatorRow"];
export type Transaction = Schemas["TransactionRow"];
export type AbortPreview = Schemas["AbortTransactionPreview"];
export type AbortReceipt = Schemas["AbortTransactionReceipt"];

const REFRESH_MS = 5_000;
export const PER_PAGE = 200;
export const TRANSACTION_SORTS = ["since", "id", "status", "timeout_ms", "owner"] as const;
export type TransactionField = (typeof TRANSACTION_SORTS)[number];

export function transactionsQuery(
  cluster: string,
  { page, ...filter }: { q?: string | undefined; older: number; sort: Sort<TransactionField>; page: number },
) {
  return queryOptions({
    queryKey: ["transactions", cluster, filter, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/transactions", {
          params: {
            path: { cluster },
            query: given({ ...filter, ...rowsOf(page, PER_PAGE) }),
          },
          signal,
        }),
      ),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
}

export interface TransactionPlace {
  cluster: string;
  coordinator: number;
  number: number;
}

const ABORT = "/api/v1/clusters/{cluster}/transactions/{coordinator}/{number}/abort";

export function previewAbort(path: TransactionPlace): Promise<AbortPreview> {
  return answerOf(api.POST(ABORT, { params: { path }, body: { preview: true } })) as Promise<AbortPreview>;
}

/** The previewed transaction that belongs to this token, and no other. */
export function applyAbort(path: TransactionPlace, token: string): Promise<AbortReceipt> {
  const body = { preview: false, token };
  return answerOf(api.POST(ABORT, { params: { path }, body })) as Promise<AbortReceipt>;
}
