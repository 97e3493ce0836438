import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute } from "@tanstack/react-router";

// Parents of all pages. The frame around the pages belongs to the app, which adds the components.
export const root = createRootRouteWithContext<{ queries: QueryClient }>()();
export const cluster = createRoute({ getParentRoute: () => root, path: "/c/$cluster" });
