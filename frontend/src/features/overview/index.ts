import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { OverviewIcon } from "../../ui/icons";
import { overviewQuery } from "./queries";

// Loaders only start a fetch early (`prefetchQuery` never throws): each page shows its own errors.
export const overviewRoute = createRoute({
  getParentRoute: () => root,
  path: "/",
  loader: ({ context }) => void context.queries.prefetchQuery(overviewQuery),
  component: lazyRouteComponent(() => import("./overview-page"), "OverviewPage"),
});

export const overview: Place = {
  label: "Overview",
  icon: OverviewIcon,
  path: () => "/",
  holds: (pathname) => pathname === "/",
};
