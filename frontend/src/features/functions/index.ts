import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { FunctionsIcon } from "../../ui/icons";

const list = createRoute({
  getParentRoute: () => cluster,
  path: "/functions",
  validateSearch: z.object({ q: searchText, component: searchText, sort: searchText }),
  component: lazyPage(() => import("./functions-page"), "FunctionsPage"),
});

const deploy = createRoute({
  getParentRoute: () => cluster,
  path: "/functions/new",
  validateSearch: z.object({ component: searchText, connector: searchText }),
  component: lazyPage(() => import("./deploy-page"), "DeployPage"),
});

const one = createRoute({
  getParentRoute: () => cluster,
  path: "/functions/$component/$tenant/$namespace/$name",
  component: lazyPage(() => import("./function-page"), "FunctionPage"),
});

const update = createRoute({
  getParentRoute: () => cluster,
  path: "/functions/$component/$tenant/$namespace/$name/update",
  component: lazyPage(() => import("./update-page"), "UpdatePage"),
});

export const functionRoutes = [list, deploy, one, update] as const;

export const functions: Place = {
  label: "Functions",
  icon: FunctionsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/functions`,
  holds: (pathname) => /^\/c\/[^/]+\/functions(\/|$)/.test(pathname),
};
