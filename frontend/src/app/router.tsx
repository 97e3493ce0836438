import type { QueryClient } from "@tanstack/react-query";
import { createRouter } from "@tanstack/react-router";
import { routeTree } from "../features";
import { parseSearch, stringifySearch } from "../lib/url-state";
import { cluster, root } from "../shared/roots";
import { ClusterGate, NotFound, RouteError, RoutePending } from "./boundaries";
import { Shell } from "./shell";

root.update({ component: Shell, notFoundComponent: NotFound });
cluster.update({ component: ClusterGate });

export function createAppRouter(queries: QueryClient) {
  return createRouter({
    routeTree,
    context: { queries },
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultPendingComponent: RoutePending,
    defaultErrorComponent: RouteError,
    defaultNotFoundComponent: NotFound,
    // The long lists place themselves: they start at their top whenever they become another list.
    scrollRestoration: ({ location }) => !/^\/c\/[^/]+\/(topics|subscriptions)$/.test(location.pathname),
  });
}

const FETCH_REST_MS = 4_000;

/** Fetches the code of all pages after the first one is shown, so that all open while the gateway does not answer. */
export function fetchPagesLater(router: ReturnType<typeof createAppRouter>): void {
  setTimeout(() => {
    for (const route of Object.values(router.routesById)) void router.loadRouteChunk(route);
  }, FETCH_REST_MS);
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
