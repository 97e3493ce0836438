import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { ConnectIcon } from "../../ui/icons";
import { clientsSearch } from "./search";

const list = createRoute({
  getParentRoute: () => cluster,
  path: "/clients",
  validateSearch: clientsSearch,
  component: lazyPage(() => import("./clients-page"), "ClientsPage"),
});

const client = createRoute({
  getParentRoute: () => cluster,
  path: "/clients/$broker/$connection",
  component: lazyPage(() => import("./client-page"), "ClientPage"),
});

export const clientRoutes = [list, client] as const;

export const clients: Place = {
  label: "Clients",
  icon: ConnectIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/clients`,
  holds: (pathname) => /^\/c\/[^/]+\/clients(\/|$)/.test(pathname),
  isFor: ({ reads_everything }) => reads_everything,
  isForAnyone: true,
};
