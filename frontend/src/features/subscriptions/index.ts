import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { TopicsIcon } from "../../ui/icons";
import { subscriptionsSearch } from "./search";

export const subscriptionsRoute = createRoute({
  getParentRoute: () => cluster,
  path: "/subscriptions",
  validateSearch: subscriptionsSearch,
  component: lazyPage(() => import("./subscriptions-page"), "SubscriptionsPage"),
});

export const subscriptions: Place = {
  label: "Subscriptions",
  icon: TopicsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/subscriptions`,
  holds: (pathname) => /^\/c\/[^/]+\/subscriptions$/.test(pathname),
};
