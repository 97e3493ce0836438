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
export type Wanted = { change: "unload" } | { change: "split"; algorithm: Algorithm; unload: boolean };

export function previewChange(id: BundleId, wanted: Wanted): Promise<BundlePreview> {
  const params = { path: { ...id } };
  if (wanted.change === "unload")
    return answerOf(
      api.POST(`${BUNDLE}/unload`, { params, body: { preview: true } }),
    ) as Promise<BundlePreview>;
  const { algorithm, unload } = wanted;
  return answerOf(
    api.POST(`${BUNDLE}/split`, { params, body: { preview: true, algorithm, unload } }),
  ) as Promise<BundlePreview>;
}

/** The previewed change that belongs to this token. */
export function applyChange(id: BundleId, change: Wanted["change"], token: string): Promise<BundleReceipt> {
  const given = { params: { path: { ...id } }, body: { preview: false, token } };
  const answering =
    change === "unload"
      ? answerOf(api.POST(`${BUNDLE}/unload`, given))
      : answerOf(
          api.POST(`${BUNDLE}/split`, {
            ...given,
            body: { ...given.body, algorithm: "equally", unload: false },
          }),
        );
  return answering as Promise<BundleReceipt>;
}
