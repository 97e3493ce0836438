import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";
import { CHANGES } from "./change-words";

// A change whose dialog is open.
const asked = z.object({ act: z.catch(z.optional(z.enum(CHANGES)), undefined) });

export const manageTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/manage",
  validateSearch: asked,
  component: lazyPage(() => import("./manage-tab"), "ManageTab"),
});
