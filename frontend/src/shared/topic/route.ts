import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { charts } from "../history/range";
import { cluster } from "../roots";

const search = z.object({ domain: z.catch(z.optional(z.literal("non-persistent")), undefined), ...charts });

/** Parent of a topic's tabs, which several features bring; the page around them is the topic's own feature's. */
export const topicPage = createRoute({
  getParentRoute: () => cluster,
  path: "/t/$tenant/$namespace/$topic",
  validateSearch: search,
});
