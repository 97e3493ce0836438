import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { TenantsIcon } from "../../ui/icons";
import { namespaceQuery, namespacesQuery, tenantsQuery } from "./queries";

const search = z.object({ q: searchText, ...listSearch });

const list = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants",
  validateSearch: z.extend(search, { act: z.catch(z.optional(z.literal("create")), undefined) }),
  loader: ({ context, params }) => void context.queries.prefetchQuery(tenantsQuery(params.cluster, "")),
  component: lazyPage(() => import("./tenants-page"), "TenantsPage"),
});

const tenant = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants/$tenant",
  validateSearch: search,
  loader: ({ context, params }) => void context.queries.prefetchQuery(namespacesQuery(params, "")),
  component: lazyPage(() => import("./tenant-page"), "TenantPage"),
});

const namespace = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants/$tenant/$namespace",
  loader: ({ context, params }) => void context.queries.prefetchQuery(namespaceQuery(params)),
  component: lazyPage(() => import("./namespace-page"), "NamespacePage"),
});

export const tenantRoutes = [list, tenant, namespace] as const;

export const tenants: Place = {
  label: "Tenants",
  icon: TenantsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/tenants`,
  holds: (pathname) => /^\/c\/[^/]+\/tenants(\/|$)/.test(pathname),
};
