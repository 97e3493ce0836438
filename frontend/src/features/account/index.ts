import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import { root } from "../../shared/roots";

export const accountRoute = createRoute({
  getParentRoute: () => root,
  path: "/account",
  component: lazyPage(() => import("./account-page"), "AccountPage"),
});
