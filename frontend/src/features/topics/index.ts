import { createRoute, redirect } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { TopicsIcon } from "../../ui/icons";
import { topicsSearch } from "./search";

export const clusterIndexRoute = createRoute({
  getParentRoute: () => cluster,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/c/$cluster/topics", params });
  },
});

export const topicsRoute = createRoute({
  getParentRoute: () => cluster,
  path: "/topics",
  validateSearch: topicsSearch,
  component: lazyPage(() => import("./topics-page"), "TopicsPage"),
});

export const topics: Place = {
  label: "Topics",
  icon: TopicsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/topics`,
  holds: (pathname) => /^\/c\/[^/]+\/(topics$|t\/)/.test(pathname),
};
