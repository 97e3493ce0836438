import { createRoute } from "@tanstack/react-router";
import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";
import { lazyPage } from "../../shared/lazy-page";
import { root } from "../../shared/roots";

const component = lazyPage(() => import("./signed-in"), "SignedIn");

// Signing in at any other page keeps its address; these two have only that form.

/** The page to which a provider returns after a failure, and the target of sign-in links. */
const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: z.object({ next: searchText }),
  component,
});

/** The address that the gateway prints with the one-time code. */
const setUp = createRoute({ getParentRoute: () => root, path: "/set-up", component });

export const signInRoutes = [signIn, setUp] as const;
