import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { rolesQuery } from "../../shared/access/roles-query";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { topicPage } from "../../shared/topic/route";
import { RolesIcon } from "../../ui/icons";

const list = createRoute({
  getParentRoute: () => cluster,
  path: "/roles",
  validateSearch: z.object({ q: searchText, ...listSearch }),
  loader: ({ context, params }) => void context.queries.prefetchQuery(rolesQuery(params.cluster, "")),
  component: lazyPage(() => import("./roles-page"), "RolesPage"),
});

const role = createRoute({
  getParentRoute: () => cluster,
  path: "/roles/$role",
  validateSearch: z.object({ q: searchText, ...listSearch }),
  component: lazyPage(() => import("./role-page"), "RolePage"),
});

export const roleRoutes = [list, role] as const;

export const accessTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/access",
  component: lazyPage(() => import("./access-tab"), "AccessTab"),
});

export const roles: Place = {
  label: "Roles",
  icon: RolesIcon,
  path: (name) => `/c/${encodeURIComponent(name)}/roles`,
  holds: (pathname) => /^\/c\/[^/]+\/roles(\/|$)/.test(pathname),
  isFor: () => true,
};
