import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { Icon } from "../../ui/icons";
import { namespaceQuery, namespacesQuery, tenantsQuery } from "./queries";

const search = z.object({ q: searchText });

const list = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants",
  validateSearch: search,
  loader: ({ context, params }) => void context.queries.prefetchQuery(tenantsQuery(params.cluster, "")),
  component: lazyRouteComponent(() => import("./tenants-page"), "TenantsPage"),
});

const tenant = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants/$tenant",
  validateSearch: search,
  loader: ({ context, params }) => void context.queries.prefetchQuery(namespacesQuery(params, "")),
  component: lazyRouteComponent(() => import("./tenant-page"), "TenantPage"),
});

const namespace = createRoute({
  getParentRoute: () => cluster,
  path: "/tenants/$tenant/$namespace",
  loader: ({ context, params }) => void context.queries.prefetchQuery(namespaceQuery(params)),
  component: lazyRouteComponent(() => import("./namespace-page"), "NamespacePage"),
});

export const tenantRoutes = [list, tenant, namespace] as const;

const TenantsIcon = ({ size }: { size?: number }) => (
  <Icon size={size}>
    <path d="M2.5 13.5v-8L8 2.5l5.5 3v8ZM6 13.5V10h4v3.5M5.5 7.2h.1M10.4 7.2h.1" />
  </Icon>
);

export const tenants: Place = {
  label: "Tenants",
  icon: TenantsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/tenants`,
  holds: (pathname) => /^\/c\/[^/]+\/tenants(\/|$)/.test(pathname),
};
