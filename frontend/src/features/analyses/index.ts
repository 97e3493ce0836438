import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { analysesQuery, placeSearch } from "../../shared/analyses/catalogue";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { AnalysesIcon } from "../../ui/icons";
import { runQuery } from "./queries";

export const analysesRoute = createRoute({
  getParentRoute: () => root,
  path: "/analyses",
  validateSearch: z.extend(placeSearch, { analysis: searchText, state: searchText, ...listSearch }),
  loader: ({ context }) => void context.queries.prefetchQuery(analysesQuery),
  component: lazyPage(() => import("./analyses-page"), "AnalysesPage"),
});

export const launchRoute = createRoute({
  getParentRoute: () => root,
  path: "/analyses/$template/new",
  validateSearch: z.extend(placeSearch, { from: searchText }),
  loader: ({ context }) => void context.queries.prefetchQuery(analysesQuery),
  component: lazyPage(() => import("./launch-page"), "LaunchPage"),
});

export const runRoute = createRoute({
  getParentRoute: () => root,
  path: "/analyses/runs/$id",
  loader: ({ context, params }) => void context.queries.prefetchQuery(runQuery(params.id)),
  component: lazyPage(() => import("./run-page"), "RunPage"),
});

export const compareRoute = createRoute({
  getParentRoute: () => root,
  path: "/analyses/runs/$id/compare/$other",
  component: lazyPage(() => import("./compare-page"), "ComparePage"),
});

export const analyses: Place = {
  label: "Analyses",
  icon: AnalysesIcon,
  path: () => "/analyses",
  holds: (pathname) => pathname.startsWith("/analyses"),
};
