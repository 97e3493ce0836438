import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { root } from "../../shared/roots";
import { ConnectIcon } from "../../ui/icons";

export const connectRoute = createRoute({
  getParentRoute: () => root,
  path: "/connect",
  component: lazyPage(() => import("./connect-page"), "ConnectPage"),
});

export const connect: Place = {
  label: "Connect",
  icon: ConnectIcon,
  path: () => "/connect",
  holds: (pathname) => pathname === "/connect",
};
