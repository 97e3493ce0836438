import { answerOf, api, given } from "../../api/client";
import type { Params } from "../../api/socket";
import type { Lag, SubscriptionPage } from "../../api/types";
import { type ListSource, PAGE_ROWS } from "../../shared/lists/use-list-window";

export interface SubscriptionFilter extends Params {
  cluster: string;
  q?: string | undefined;
  tenant?: string | undefined;
  namespace?: string | undefined;
  attention?: Lag["cause"] | "any" | undefined;
  older_s?: number | undefined;
  late?: "true" | undefined;
  sort?: string | undefined;
}

export const SUBSCRIPTION_LIST: ListSource<SubscriptionFilter, SubscriptionPage> = {
  channel: "subscriptions",
  key: (filter, offset) => ["subscriptions", filter, offset],
  read: ({ cluster, ...rest }, offset, signal) =>
    answerOf(
      api.GET("/api/v1/clusters/{cluster}/subscriptions", {
        params: { path: { cluster }, query: given({ ...rest, offset, limit: PAGE_ROWS }) },
        signal,
      }),
    ),
};
