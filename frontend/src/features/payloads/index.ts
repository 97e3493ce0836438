import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { HiddenIcon } from "../../ui/icons";

export const payloadsRoute = createRoute({
  getParentRoute: () => root,
  path: "/payload-rules",
  component: lazyPage(() => import("./payload-rules-page"), "PayloadRulesPage"),
});

export const payloads: Place = {
  label: "Payload rules",
  icon: HiddenIcon,
  path: () => "/payload-rules",
  holds: (pathname) => pathname === "/payload-rules",
  isFor: ({ reads_everything }) => reads_everything,
};
