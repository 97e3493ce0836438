import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute } from "@tanstack/react-router";

// Parents of all pages. What stands around the pages is the app's: it adds the components.
export const root = createRootRouteWithContext<{ queries: QueryClient }>()();
export const cluster = createRoute({ getParentRoute: () => root, path: "/c/$cluster" });
