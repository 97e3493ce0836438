import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import type { Place } from "../../shared/place";
import { cluster } from "../../shared/roots";
import { ClockIcon } from "../../ui/icons";

export const transactionsRoute = createRoute({
  getParentRoute: () => cluster,
  path: "/transactions",
  validateSearch: z.object({ q: searchText, older: searchText, ...listSearch }),
  component: lazyPage(() => import("./transactions-page"), "TransactionsPage"),
});

export const transactions: Place = {
  label: "Transactions",
  icon: ClockIcon,
  path: (cluster) => `/c/${encodeURIComponent(cluster)}/transactions`,
  holds: (pathname) => /^\/c\/[^/]+\/transactions$/.test(pathname),
  isFor: ({ reads_everything }) => reads_everything,
  isForAnyone: true,
};
