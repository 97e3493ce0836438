import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";

export type AdvertisedAddress = components["schemas"]["AdvertisedAddress"];

/** The addresses that brokers advertise, each with the reason why the gateway cannot connect to it. */
export const addressesQuery = (cluster: string) =>
  queryOptions({
    queryKey: ["addresses", cluster],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/clusters/{cluster}/addresses", { params: { path: { cluster } }, signal })),
    staleTime: 10_000,
  });

/** The service URLs of each named listener: one for clients without TLS, one for those with it, of all brokers. */
export function urlsOfListeners(rows: AdvertisedAddress[]): { listener: string; url: string }[] {
  const urls = new Map<string, { listener: string; url: string }>();
  for (const { listener, url } of rows) {
    if (!listener) continue;
    const [scheme, host] = url.split("://");
    const key = `${listener} ${scheme}`;
    const known = urls.get(key);
    urls.set(key, { listener, url: known ? `${known.url},${host}` : url });
  }
  return [...urls.values()];
}
