import { createRoute, redirect } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { range } from "../../shared/history/range";
import { lazyPage } from "../../shared/lazy-page";
import { cluster } from "../../shared/roots";

const search = z.object({ domain: z.catch(z.optional(z.literal("non-persistent")), undefined), range });

// A change of a subscription's cursor whose dialog is open.
const asked = z.object({
  act: z.catch(z.optional(z.enum(["skip-all", "skip", "reset"])), undefined),
  sub: searchText,
});

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
  validateSearch: asked,
  component: lazyPage(() => import("./topic-subscriptions"), "TopicSubscriptions"),
});

const partitions = createRoute({
  getParentRoute: () => topic,
  path: "/partitions",
  component: lazyPage(() => import("./topic-partitions"), "TopicPartitions"),
});

export const topicRoute = topic.addChildren([index, overview, subscriptions, partitions]);
