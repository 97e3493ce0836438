import { createRoute, redirect } from "@tanstack/react-router";
import * as z from "zod/mini";
import { lazyPage } from "../../shared/lazy-page";
import { cluster } from "../../shared/roots";

const search = z.object({ domain: z.catch(z.optional(z.literal("non-persistent")), undefined) });

const topic = createRoute({
  getParentRoute: () => cluster,
  path: "/t/$tenant/$namespace/$topic",
  validateSearch: search,
  component: lazyPage(() => import("./topic-page"), "TopicPage"),
});

const index = createRoute({
  getParentRoute: () => topic,
  path: "/",
  beforeLoad: ({ params, search }) => {
    throw redirect({ to: "/c/$cluster/t/$tenant/$namespace/$topic/overview", params, search, replace: true });
  },
});

const overview = createRoute({
  getParentRoute: () => topic,
  path: "/overview",
  component: lazyPage(() => import("./topic-overview"), "TopicOverview"),
});

const subscriptions = createRoute({
  getParentRoute: () => topic,
  path: "/subscriptions",
  component: lazyPage(() => import("./topic-subscriptions"), "TopicSubscriptions"),
});

const partitions = createRoute({
  getParentRoute: () => topic,
  path: "/partitions",
  component: lazyPage(() => import("./topic-partitions"), "TopicPartitions"),
});

export const topicRoute = topic.addChildren([index, overview, subscriptions, partitions]);
