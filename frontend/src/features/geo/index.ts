import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { GeoIcon } from "../../ui/icons";
import { endsQuery } from "./geo-queries";
import { linkSearch } from "./link-search";

const map = createRoute({
  getParentRoute: () => cluster,
  path: "/geo",
  loader: ({ context, params }) => void context.queries.prefetchQuery(endsQuery(params.cluster)),
  component: lazyPage(() => import("./geo-page"), "GeoPage"),
});

const link = createRoute({
  getParentRoute: () => cluster,
  path: "/geo/$remote",
  validateSearch: linkSearch,
  component: lazyPage(() => import("./link-page"), "LinkPage"),
});

export const geoRoutes = [map, link] as const;

export const geo: Place = {
  label: "Geo",
  icon: GeoIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/geo`,
  holds: (pathname) => /^\/c\/[^/]+\/geo(\/|$)/.test(pathname),
  isFor: ({ reads_everything }) => reads_everything,
  isForAnyone: true,
};
