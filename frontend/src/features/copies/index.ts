import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { TopicsIcon } from "../../ui/icons";
import { copiesSearch, lettersSearch } from "./search";

export const copyRoutes = [
  createRoute({
    getParentRoute: () => cluster,
    path: "/dead-letters",
    validateSearch: lettersSearch,
    component: lazyPage(() => import("./letters-page"), "LettersPage"),
  }),
  createRoute({
    getParentRoute: () => cluster,
    path: "/copies",
    validateSearch: copiesSearch,
    component: lazyPage(() => import("./copies-page"), "CopiesPage"),
  }),
];

export const letters: Place = {
  label: "Dead letters",
  icon: TopicsIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/dead-letters`,
  holds: (pathname) => /^\/c\/[^/]+\/(dead-letters|copies)$/.test(pathname),
};
