import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { AuditIcon } from "../../ui/icons";
import { entryQuery } from "./queries";
import { auditSearch } from "./search";

const list = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyPage(() => import("./audit-page"), "AuditPage"),
});

const entry = createRoute({
  getParentRoute: () => root,
  path: "/audit/$id",
  loader: ({ context, params }) => void context.queries.prefetchQuery(entryQuery(params.id)),
  component: lazyPage(() => import("./entry-page"), "EntryPage"),
});

export const auditRoutes = [list, entry] as const;

export const audit: Place = {
  label: "Audit log",
  icon: AuditIcon,
  path: () => "/audit",
  holds: (pathname) => /^\/audit(\/|$)/.test(pathname),
  isFor: ({ reads_everything }) => reads_everything,
};
