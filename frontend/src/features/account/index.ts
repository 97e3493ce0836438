import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import { root } from "../../shared/roots";

export const accountRoute = createRoute({
  getParentRoute: () => root,
  path: "/account",
  validateSearch: z.object({ q: searchText, ...listSearch }),
  component: lazyPage(() => import("./account-page"), "AccountPage"),
});
