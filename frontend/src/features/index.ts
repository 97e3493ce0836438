import type { Place } from "../shared/place";
import { cluster, root } from "../shared/roots";
import { topicPage } from "../shared/topic/route";
import { accessTab, roleRoutes, roles } from "./access";
import { accountRoute } from "./account";
import { alerts, alertsRoute } from "./alerts";
import { analyses, analysesRoute, compareRoute, launchRoute, runRoute } from "./analyses";
import { audit, auditRoutes } from "./audit";
import { changeRoutes, changes } from "./changes";
import { clientRoutes, clients } from "./clients";
import { clusterParts, clusterRoutes } from "./cluster";
import { connect, connectRoute } from "./connect";
import { copyRoutes, letters } from "./copies";
import { functionRoutes, functions } from "./functions";
import { geo, geoRoutes } from "./geo";
import { manageTab } from "./manage";
import { messageTabs } from "./messages";
import { overview, overviewRoute } from "./overview";
import { payloads, payloadsRoute } from "./payloads";
import { people, peopleRoutes } from "./people";
import { policiesTab } from "./policies";
import { publishTab } from "./publishing";
import { schemaTab } from "./schema";
import { signInRoutes } from "./sign-in";
import { subscriptions, subscriptionsRoute } from "./subscriptions";
import { tenantRoutes, tenants } from "./tenants";
import { topicTabs } from "./topic";
import { clusterIndexRoute, topics, topicsRoute } from "./topics";
import { tracesTab } from "./traces";
import { transactions, transactionsRoute } from "./transactions";

const topicRoute = topicPage.addChildren([
  ...topicTabs,
  ...messageTabs,
  publishTab,
  schemaTab,
  policiesTab,
  manageTab,
  tracesTab,
  accessTab,
]);

// All that the app knows of its features: a page is a folder here and a line in each of these.
export const routeTree = root.addChildren([
  overviewRoute,
  connectRoute,
  cluster.addChildren([
    clusterIndexRoute,
    topicsRoute,
    subscriptionsRoute,
    topicRoute,
    ...changeRoutes,
    ...copyRoutes,
    ...tenantRoutes,
    ...clusterRoutes,
    ...clientRoutes,
    transactionsRoute,
    ...functionRoutes,
    ...geoRoutes,
    ...roleRoutes,
  ]),
  alertsRoute,
  analysesRoute,
  launchRoute,
  runRoute,
  compareRoute,
  accountRoute,
  ...peopleRoutes,
  payloadsRoute,
  ...auditRoutes,
  ...signInRoutes,
]);

export const places: Place[] = [
  overview,
  topics,
  subscriptions,
  changes,
  clients,
  transactions,
  functions,
  letters,
  tenants,
  clusterParts,
  geo,
  alerts,
  analyses,
  connect,
  people,
  payloads,
  roles,
  audit,
];
