import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { ClockIcon } from "../../ui/icons";
import { alertSearch } from "./search";

export const alertsRoute = createRoute({
  getParentRoute: () => root,
  path: "/alerts",
  validateSearch: alertSearch,
  component: lazyPage(() => import("./alerts-page"), "AlertsPage"),
});

export const alerts: Place = {
  label: "Alerts",
  icon: ClockIcon,
  path: () => "/alerts",
  holds: (pathname) => pathname === "/alerts",
};
