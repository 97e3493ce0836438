import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import { POLL_MS } from "../../api/live";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];

export type Broker = Schemas["BrokerWithBundles"];
export type Bookie = Schemas["BookieWithRack"];
export type Bundle = Schemas["BundleRow"];
export type BundlePreview = Schemas["BundlePreview"];
export type BundleReceipt = Schemas["BundleReceipt"];
export type TransferPreview = Schemas["TransferPreview"];
export type TransferReceipt = Schemas["TransferReceipt"];
export type Algorithm = NonNullable<Schemas["SplitBundleBodyRequest"]["algorithm"]>;

export const PAGE_ROWS = 100;
const BUNDLES_MS = 2 * POLL_MS;

export interface BundleFilter {
  cluster: string;
  q?: string | undefined;
  broker?: string | undefined;
  sort?: string | undefined;
}

export interface BundleId {
  cluster: string;
  tenant: string;
  namespace: string;
  bundle: string;
}

export function brokersQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "brokers"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/brokers", { params: { path: { cluster } }, signal })),
    refetchInterval: POLL_MS,
  });
}

export function bookiesQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster, "bookies"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/bookies", { params: { path: { cluster } }, signal })),
    refetchInterval: POLL_MS,
  });
}

export function bundlesQuery({ cluster, ...rest }: BundleFilter, offset: number) {
  return queryOptions({
    queryKey: ["cluster", cluster, "bundles", rest, offset],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/bundles", {
          params: { path: { cluster }, query: given({ ...rest, offset, limit: PAGE_ROWS }) },
          signal,
        }),
      ),
    refetchInterval: BUNDLES_MS,
    gcTime: 30_000,
  });
}

const BUNDLE = "/api/v1/clusters/{cluster}/bundles/{tenant}/{namespace}/{bundle}";

/** The kinds of change to a bundle. */
export type Wanted =
  | { change: "unload" }
  | { change: "split"; algorithm: Algorithm; unload: boolean }
  | { change: "transfer"; destination: string };
export type ChangePreview = BundlePreview | TransferPreview;
export type ChangeReceipt = BundleReceipt | TransferReceipt;

export function previewChange(id: BundleId, wanted: Wanted): Promise<ChangePreview> {
  const params = { path: { ...id } };
  return previewCall(params, wanted) as Promise<ChangePreview>;
}

function previewCall(params: { path: BundleId }, wanted: Wanted) {
  switch (wanted.change) {
    case "unload":
      return answerOf(api.POST(`${BUNDLE}/unload`, { params, body: { preview: true } }));
    case "transfer":
      return answerOf(
        api.POST(`${BUNDLE}/transfer`, {
          params,
          body: { preview: true, destination: wanted.destination },
        }),
      );
    case "split": {
      const { algorithm, unload } = wanted;
      return answerOf(api.POST(`${BUNDLE}/split`, { params, body: { preview: true, algorithm, unload } }));
    }
  }
}

/** The previewed change that belongs to this token. */
export function applyChange(id: BundleId, change: Wanted["change"], token: string): Promise<ChangeReceipt> {
  return applyCall({ path: { ...id } }, change, token) as Promise<ChangeReceipt>;
}

function applyCall(params: { path: BundleId }, change: Wanted["change"], token: string) {
  const body = { preview: false, token };
  switch (change) {
    case "unload":
      return answerOf(api.POST(`${BUNDLE}/unload`, { params, body }));
    case "transfer":
      return answerOf(api.POST(`${BUNDLE}/transfer`, { params, body: { ...body, destination: "" } }));
    case "split":
      return answerOf(
        api.POST(`${BUNDLE}/split`, { params, body: { ...body, algorithm: "equally", unload: false } }),
      );
  }
}
