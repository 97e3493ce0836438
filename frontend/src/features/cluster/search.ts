import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { charts } from "../../shared/history/range";

export const BUNDLE_SORTS = [
  "bundle",
  "owner",
  "topics",
  "msg_rate_in",
  "msg_rate_out",
  "bytes_rate_in",
  "bytes_rate_out",
  "backlog",
] as const;
export type BundleSort = (typeof BUNDLE_SORTS)[number];

export const bundlesSearch = z.object({
  q: searchText,
  broker: searchText,
  sort: searchText,
  // The bundle whose dialog is open, as tenant/namespace/range.
  change: searchText,
});

/** The server whose history is shown. */
export const brokersSearch = z.object({ ...charts, server: searchText, sort: searchText });

/** The bookies whose dialogs are open, and the one whose history is shown. */
export const bookiesSearch = z.object({
  ...charts,
  server: searchText,
  sort: searchText,
  rack: searchText,
  loss: searchText,
});

/** Names of the setting whose dialog is open, to be set or removed. */
export const settingsSearch = z.object({ change: searchText, remove: searchText });

const BUNDLE = /^([^/]+)\/([^/]+)\/(0x[0-9a-f]{8}_0x[0-9a-f]{8})$/;

/** "shop/orders/0x00000000_0x40000000" → its parts; null for anything else. */
export function parseBundle(text: string | undefined) {
  const found = BUNDLE.exec(text ?? "");
  if (!found) return null;
  const [, tenant = "", namespace = "", bundle = ""] = found;
  return { tenant, namespace, bundle };
}

export function nameOfBundle({
  tenant,
  namespace,
  bundle,
}: {
  tenant: string;
  namespace: string;
  bundle: string;
}): string {
  return `${tenant}/${namespace}/${bundle}`;
}

const HASHES = 0x1_0000_0000;

/** A range's share of the namespace's hashes, 0 to 1. */
export function shareOf(bundle: string): number {
  const [low = 0, high = 0] = bundle.split("_").map((edge) => Number.parseInt(edge, 16));
  return (high - low + (high === HASHES - 1 ? 1 : 0)) / HASHES;
}
