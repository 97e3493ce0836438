// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { configure, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { session } from "../../api/session/session";
import { openPalette, Palette } from "./palette";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => {
  vi.unstubAllGlobals();
  session.view = { session: null, ended: null, viewer: 0 };
});

const WHY = "role app lacks consume on persistent://acme/billing/orders; a tenant admin of acme can grant it";
const refused = { allowed: false, why: WHY };
const SUBSCRIPTION = { name: "audit", backlog: 3, backlog_messages: 3 };

function answer({ pathname, searchParams }: URL): object {
  if (pathname.endsWith("/may")) {
    const isSubscription = searchParams.get("subscription") === "audit";
    const actions = isSubscription
      ? { reset: refused, skip: { allowed: true, why: "" }, skipAll: refused }
      : { startRun: refused, createTenant: { allowed: false, why: "role app is no superuser" } };
    return { actions };
  }
  if (pathname.includes("/topics/persistent"))
    return { row: { partitions: 0 }, subscriptions: [SUBSCRIPTION] };
  if (pathname.endsWith("/topics")) return { total: 0, rows: [] };
  if (pathname.endsWith("/scopes"))
    return { tenants: { total: 0, names: [] }, namespaces: { total: 0, names: [] } };
  return { rows: [] };
}

function show() {
  session.view.session = {
    authentication: true,
    authorization: true,
    person: { name: "ada", level: "full", superuser: false, viewing_as: null },
  } as never;
  vi.stubGlobal("fetch", async (request: Request) => Response.json(answer(new URL(request.url))));
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
  window.scrollTo = () => {};
  Element.prototype.scrollIntoView = () => {};
  const root = createRootRoute({ component: Palette });
  const page = createRoute({
    getParentRoute: () => root,
    path: "/c/$cluster/t/$tenant/$namespace/$topic/overview",
  });
  const router = createRouter({
    routeTree: root.addChildren([page]),
    history: createMemoryHistory({ initialEntries: ["/c/standalone/t/acme/billing/orders/overview"] }),
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return router;
}

test("what the person may not do is disabled, with the missing right and who can give it", async () => {
  const user = userEvent.setup();
  const router = show();
  await vi.waitFor(() => expect(router.state.status).toBe("idle"));
  openPalette();
  await user.type(await screen.findByRole("textbox", { name: /open a topic/i }), "reset");
  const reset = await screen.findByRole("button", { name: /Reset… audit/ });
  await vi.waitFor(() => expect(reset.getAttribute("aria-disabled")).toBe("true"));
  expect(reset.textContent).toContain(WHY);
  await user.click(reset);
  expect(router.state.location.pathname).toMatch(/overview$/);
  expect(screen.getByRole("textbox", { name: /open a topic/i })).toBeDefined();
  await user.clear(screen.getByRole("textbox", { name: /open a topic/i }));
  await user.type(screen.getByRole("textbox", { name: /open a topic/i }), "skip");
  const skip = await screen.findByRole("button", { name: /^Skip… audit/ });
  expect(skip.getAttribute("aria-disabled")).toBeNull();
  await user.clear(screen.getByRole("textbox", { name: /open a topic/i }));
  await user.type(screen.getByRole("textbox", { name: /open a topic/i }), "create tenant");
  const create = await screen.findByRole("button", { name: /Create a tenant/ });
  expect(create.textContent).toContain("role app is no superuser");
});
