import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, redirect } from "@tanstack/react-router";
import * as z from "zod/mini";
import { environmentQuery } from "../api/environment";
import { pageCluster } from "../api/page-cluster";
import { searchText } from "../lib/url-state";

// Parents of all pages. The frame around the pages belongs to the app, which adds the components.
export const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  // The cluster of a page outside of the paths of a cluster, where the gateway serves several: a reload and a link show
  // the same. The default cluster is not named.
  validateSearch: z.object({ cluster: searchText }),
  beforeLoad: ({ context, location }) => {
    const served = context.queries.getQueryData(environmentQuery.queryKey)?.served ?? [];
    const { pathname, search } = location as { pathname: string; search: { cluster?: string } };
    if (pageCluster === undefined || !served.includes(pageCluster) || pageCluster === served[0]) return;
    if (pathname.startsWith("/c/") || search.cluster === pageCluster) return;
    throw redirect({ to: pathname, search: { ...search, cluster: pageCluster }, replace: true });
  },
});
export const cluster = createRoute({ getParentRoute: () => root, path: "/c/$cluster" });
