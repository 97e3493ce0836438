import { createRoute, redirect } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";

// A change of a subscription whose dialog is open.
const asked = z.object({
  act: z.catch(z.optional(z.enum(["skip-all", "skip", "reset", "delete", "disconnect"])), undefined),
  sub: searchText,
});

topicPage.update({ component: lazyPage(() => import("./topic-page"), "TopicPage") });

const index = createRoute({
  getParentRoute: () => topicPage,
  path: "/",
  beforeLoad: ({ params, search }) => {
    throw redirect({ to: "/c/$cluster/t/$tenant/$namespace/$topic/overview", params, search, replace: true });
  },
});

const overview = createRoute({
  getParentRoute: () => topicPage,
  path: "/overview",
  component: lazyPage(() => import("./topic-overview"), "TopicOverview"),
});

const subscriptions = createRoute({
  getParentRoute: () => topicPage,
  path: "/subscriptions",
  validateSearch: asked,
  component: lazyPage(() => import("./topic-subscriptions"), "TopicSubscriptions"),
});

const partitions = createRoute({
  getParentRoute: () => topicPage,
  path: "/partitions",
  component: lazyPage(() => import("./topic-partitions"), "TopicPartitions"),
});

export const topicTabs = [index, overview, subscriptions, partitions] as const;
