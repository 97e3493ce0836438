import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { SkipIcon } from "../../ui/icons";

const state = z.catch(z.optional(z.string().check(z.regex(/^[a-z]{1,16}$/))), undefined);

export const changeRoutes = [
  createRoute({
    getParentRoute: () => cluster,
    path: "/changes",
    validateSearch: z.object(listSearch),
    component: lazyPage(() => import("./changes-page"), "ChangesPage"),
  }),
  createRoute({
    getParentRoute: () => cluster,
    path: "/changes/$id",
    validateSearch: z.object({ q: searchText, state, ...listSearch }),
    component: lazyPage(() => import("./change-page"), "ChangePage"),
  }),
  createRoute({
    getParentRoute: () => cluster,
    path: "/definitions",
    component: lazyPage(() => import("./definitions-page"), "DefinitionsPage"),
  }),
] as const;

export const changes: Place = {
  label: "Changes",
  icon: SkipIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/changes`,
  holds: (pathname) => /^\/c\/[^/]+\/(changes|definitions)/.test(pathname),
};
