// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRouter, RouterProvider } from "@tanstack/react-router";
import { configure, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { session } from "../../api/session/session";
import { cluster, root } from "../../shared/roots";
import { roleRoutes } from "./index";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
const sent: [string, unknown][] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  session.view = { session: null, ended: null, viewer: 0 };
  sent.length = 0;
});

const WHY = "app has the grant produce, consume on acme/billing";
const PLACE = { kind: "namespace", tenant: "acme", namespace: "billing", topic: "", subscription: "" };
const PERSON = {
  ...{ name: "ada", method: "session", role: "superuser", level: "full" },
  ...{ superuser: true, viewing_as: null, roles: [] },
};

function open(path: string, person: object = PERSON) {
  session.view.session = { authentication: true, authorization: true, person } as never;
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    if (request.method === "POST") {
      sent.push([url.pathname, await request.json()]);
      return Response.json({ ...session.view.session, person: { ...person, viewing_as: "app" } });
    }
    if (url.pathname.endsWith("/may")) return Response.json({ actions: {} });
    if (url.pathname === "/api/v1/tokens") return Response.json({ obstacle: "", total: 0, rows: [] });
    if (url.pathname.endsWith("/roles/app"))
      return Response.json({
        ...{ role: "app", pattern: false, judged: true, total: 1, offset: 0, limit: 200 },
        rows: [
          {
            ...{ ...PLACE, resource: "acme/billing", every_topic: false },
            actions: ["produce", "consume"].map((action) => ({ action, why: WHY, because: [] })),
          },
        ],
      });
    const row = { role: "app", pattern: false, superuser: false, proxy: false };
    return Response.json({
      ...{ total: 1, offset: 0, limit: 200, judged: true },
      rows: [{ ...row, tenants: 0, namespaces: 1, grants: 1, subscriptions: 0 }],
    });
  });
  window.scrollTo = () => {};
  const router = createRouter({
    routeTree: root.addChildren([cluster.addChildren([...roleRoutes])]),
    context: { queries: new QueryClient() },
    history: createMemoryHistory({ initialEntries: [path] }),
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("a role of the list leads to what it can do and why", async () => {
  const user = userEvent.setup();
  open("/c/standalone/roles");
  await user.click(await screen.findByRole("link", { name: "app" }));
  expect(await screen.findAllByText(WHY)).toHaveLength(1);
  expect(screen.getByText("consume")).toBeDefined();
  expect(screen.getByRole("link", { name: "acme/billing" }).getAttribute("href")).toBe(
    "/c/standalone/tenants/acme/billing",
  );
});

test("a superuser views the console as a role", async () => {
  const user = userEvent.setup();
  open("/c/standalone/roles/app");
  await user.click(await screen.findByRole("button", { name: "View as this role" }));
  expect(sent).toEqual([["/api/v1/session/view-as", { role: "app" }]]);
});

test("others are not offered to view as a role", async () => {
  open("/c/standalone/roles/app", { ...PERSON, level: "operate" });
  await screen.findByText(WHY);
  expect(screen.queryByRole("button", { name: "View as this role" })).toBeNull();
});
