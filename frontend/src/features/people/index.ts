import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { PeopleIcon } from "../../ui/icons";

const list = createRoute({
  getParentRoute: () => root,
  path: "/people",
  validateSearch: z.object({
    q: searchText,
    act: z.catch(z.optional(z.literal("create")), undefined),
    ...listSearch,
  }),
  component: lazyPage(() => import("./people-page"), "PeoplePage"),
});

const person = createRoute({
  getParentRoute: () => root,
  path: "/people/$name",
  component: lazyPage(() => import("./person-page"), "PersonPage"),
});

export const peopleRoutes = [list, person] as const;

export const people: Place = {
  label: "People",
  icon: PeopleIcon,
  path: () => "/people",
  holds: (pathname) => /^\/people(\/|$)/.test(pathname),
  isFor: ({ reads_everything }) => reads_everything,
};
