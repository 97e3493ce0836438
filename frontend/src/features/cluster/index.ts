import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { ClusterIcon } from "../../ui/icons";
import { bookiesQuery, brokersQuery } from "./queries";
import { bookiesSearch, brokersSearch, bundlesSearch, settingsSearch } from "./search";
import { settingsQuery } from "./settings/setting-queries";

const brokers = createRoute({
  getParentRoute: () => cluster,
  path: "/brokers",
  validateSearch: brokersSearch,
  loader: ({ context, params }) => void context.queries.prefetchQuery(brokersQuery(params.cluster)),
  component: lazyPage(() => import("./brokers-page"), "BrokersPage"),
});

const bundles = createRoute({
  getParentRoute: () => cluster,
  path: "/bundles",
  validateSearch: bundlesSearch,
  component: lazyPage(() => import("./bundles-page"), "BundlesPage"),
});

const bookies = createRoute({
  getParentRoute: () => cluster,
  path: "/bookies",
  validateSearch: bookiesSearch,
  loader: ({ context, params }) => void context.queries.prefetchQuery(bookiesQuery(params.cluster)),
  component: lazyPage(() => import("./bookies-page"), "BookiesPage"),
});

const settings = createRoute({
  getParentRoute: () => cluster,
  path: "/settings",
  validateSearch: settingsSearch,
  loader: ({ context, params }) => void context.queries.prefetchQuery(settingsQuery(params.cluster)),
  component: lazyPage(() => import("./settings-page"), "SettingsPage"),
});

export const clusterRoutes = [brokers, bundles, bookies, settings] as const;

export const clusterParts: Place = {
  label: "Cluster",
  icon: ClusterIcon,
  // Of the parts of a cluster, users other than superusers see the bundles of their namespaces alone.
  path: (cluster, person) =>
    `/c/${encodeURIComponent(cluster)}/${person && !person.reads_everything ? "bundles" : "brokers"}`,
  holds: (pathname) => /^\/c\/[^/]+\/(brokers|bundles|bookies|settings)$/.test(pathname),
};
