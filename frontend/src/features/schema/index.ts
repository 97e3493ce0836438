import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";

const number = z.catch(z.optional(z.coerce.number().check(z.int(), z.minimum(0))), undefined);

/** `version` is shown, beside `with` if it is given; the list begins below `before`. */
const shown = z.object({ version: number, with: number, before: number });

export const schemaTab = createRoute({
  getParentRoute: () => topicPage,
  path: "/schema",
  validateSearch: shown,
  component: lazyPage(() => import("./schema-tab"), "SchemaTab"),
});
