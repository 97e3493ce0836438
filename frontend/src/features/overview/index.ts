import type { QueryClient } from "@tanstack/react-query";
import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { environmentQuery } from "../../api/environment";
import { searchText } from "../../lib/url-state";
import { charts } from "../../shared/history/range";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { OverviewIcon } from "../../ui/icons";
import { overviewQuery } from "./queries";

// Loaders only start a fetch early (`prefetchQuery` never throws): each page shows its own errors.
export const overviewRoute = createRoute({
  getParentRoute: () => root,
  path: "/",
  validateSearch: z.object({ ...charts, wall: searchText }),
  loader: ({ context }) => void prefetch(context.queries),
  component: lazyPage(() => import("./overview-page"), "OverviewPage"),
});

export const overview: Place = {
  label: "Overview",
  icon: OverviewIcon,
  path: () => "/",
  holds: (pathname) => pathname === "/",
};

async function prefetch(queries: QueryClient): Promise<void> {
  await queries.prefetchQuery(environmentQuery);
  const cluster = queries.getQueryData(environmentQuery.queryKey)?.cluster;
  if (cluster !== undefined) await queries.prefetchQuery(overviewQuery(cluster));
}
