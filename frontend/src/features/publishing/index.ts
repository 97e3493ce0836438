import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";

export const publishTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/publish",
  /** `from`: the message that is sent again. */
  validateSearch: z.object({ from: searchText }),
  component: lazyPage(() => import("./publish-page"), "PublishPage"),
});
