import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";

export const policiesTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/policies",
  component: lazyPage(() => import("./policies-tab"), "PoliciesTab"),
});
