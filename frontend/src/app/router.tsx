import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { analysesQuery, overviewQuery, runQuery } from "../api/queries";
import {
  analysesSearch,
  launchSearch,
  parseSearch,
  stringifySearch,
  topicSearch,
  topicsSearch,
} from "../lib/url-state";
import { ClusterGate, NotFound, RouteError, RoutePending } from "./boundaries";
import { Shell } from "./shell";

// Loaders only start a fetch early (`prefetchQuery` never throws): each page shows its own errors.
const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Shell,
  notFoundComponent: NotFound,
});

const overview = createRoute({
  getParentRoute: () => root,
  path: "/",
  loader: ({ context }) => void context.queries.prefetchQuery(overviewQuery),
  component: lazyRouteComponent(() => import("../features/overview/overview-page"), "OverviewPage"),
});

const cluster = createRoute({ getParentRoute: () => root, path: "/c/$cluster", component: ClusterGate });

const clusterIndex = createRoute({
  getParentRoute: () => cluster,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/c/$cluster/topics", params });
  },
});

const topics = createRoute({
  getParentRoute: () => cluster,
  path: "/topics",
  validateSearch: topicsSearch,
  component: lazyRouteComponent(() => import("../features/topics/topics-page"), "TopicsPage"),
});

const topic = createRoute({
  getParentRoute: () => cluster,
  path: "/t/$tenant/$namespace/$topic",
  validateSearch: topicSearch,
  component: lazyRouteComponent(() => import("../features/topic/topic-page"), "TopicPage"),
});

const topicIndex = createRoute({
  getParentRoute: () => topic,
  path: "/",
  beforeLoad: ({ params, search }) => {
    throw redirect({ to: "/c/$cluster/t/$tenant/$namespace/$topic/overview", params, search, replace: true });
  },
});

const topicOverview = createRoute({
  getParentRoute: () => topic,
  path: "/overview",
  component: lazyRouteComponent(() => import("../features/topic/topic-overview"), "TopicOverview"),
});

const topicSubscriptions = createRoute({
  getParentRoute: () => topic,
  path: "/subscriptions",
  component: lazyRouteComponent(() => import("../features/topic/topic-subscriptions"), "TopicSubscriptions"),
});

const analyses = createRoute({
  getParentRoute: () => root,
  path: "/analyses",
  validateSearch: analysesSearch,
  loader: ({ context }) => void context.queries.prefetchQuery(analysesQuery),
  component: lazyRouteComponent(() => import("../features/analyses/analyses-page"), "AnalysesPage"),
});

const launch = createRoute({
  getParentRoute: () => root,
  path: "/analyses/$template/new",
  validateSearch: launchSearch,
  loader: ({ context }) => void context.queries.prefetchQuery(analysesQuery),
  component: lazyRouteComponent(() => import("../features/analyses/launch-page"), "LaunchPage"),
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/analyses/runs/$id",
  loader: ({ context, params }) => void context.queries.prefetchQuery(runQuery(params.id)),
  component: lazyRouteComponent(() => import("../features/analyses/run-page"), "RunPage"),
});

const routeTree = root.addChildren([
  overview,
  cluster.addChildren([
    clusterIndex,
    topics,
    topic.addChildren([topicIndex, topicOverview, topicSubscriptions]),
  ]),
  analyses,
  launch,
  run,
]);

export function createAppRouter(queries: QueryClient) {
  return createRouter({
    routeTree,
    context: { queries },
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultPendingComponent: RoutePending,
    defaultErrorComponent: RouteError,
    defaultNotFoundComponent: NotFound,
    // The topic list places itself: it starts at its top whenever it becomes another list.
    scrollRestoration: ({ location }) => !location.pathname.endsWith("/topics"),
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
