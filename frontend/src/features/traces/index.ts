import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";

export const tracesTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/traces",
  component: lazyPage(() => import("./traces-tab"), "TracesTab"),
});
