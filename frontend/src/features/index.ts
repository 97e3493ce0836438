import type { Place } from "../shared/place";
import { cluster, root } from "../shared/roots";
import { analyses, analysesRoute, launchRoute, runRoute } from "./analyses";
import { connect, connectRoute } from "./connect";
import { overview, overviewRoute } from "./overview";
import { tenantRoutes, tenants } from "./tenants";
import { topicRoute } from "./topic";
import { clusterIndexRoute, topics, topicsRoute } from "./topics";

// All that the app knows of its features: a page is a folder here and a line in each of these.
export const routeTree = root.addChildren([
  overviewRoute,
  connectRoute,
  cluster.addChildren([clusterIndexRoute, topicsRoute, topicRoute, ...tenantRoutes]),
  analysesRoute,
  launchRoute,
  runRoute,
]);

export const places: Place[] = [overview, topics, tenants, analyses, connect];
