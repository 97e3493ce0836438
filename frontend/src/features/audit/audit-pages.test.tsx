// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRouter, RouterProvider } from "@tanstack/react-router";
import { configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { parseSearch, stringifySearch } from "../../lib/url-state";
import { root } from "../../shared/roots";
import { auditRoutes } from "./index";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => vi.unstubAllGlobals());
// jsdom lays nothing out: the grid's box is given a size, as a browser would measure it.
beforeEach(() => {
  for (const name of ["offsetHeight", "clientHeight"] as const)
    vi.spyOn(HTMLElement.prototype, name, "get").mockReturnValue(720);
  vi.spyOn(HTMLElement.prototype, "offsetWidth", "get").mockReturnValue(1000);
  HTMLElement.prototype.scrollTo = () => {};
  window.scrollTo = () => {};
});

const ROW = {
  ...{ id: "7", at: 1_700_000_000_000, actor: "ada", role: "billing-admin", address: "10.0.0.9" },
  ...{ method: "PUT", operation: "setPolicy", target: "/api/v1/x", cluster: "standalone" },
  ...{ tenant: "acme", namespace: "acme/billing", topic: "", status: 200, request_id: "r-1" },
  given: '{"ttl":60}',
  changes: [
    { where: "/admin/policies/acme/billing", before: { ttl: 30 }, after: { ttl: 60 } },
    { where: "/admin/new", before: null, after: { a: 1 } },
    { more: 2 },
  ],
};

const VERIFIED = {
  ...{ problem: "", entry_id: null, entries: 1200, removed_to: "40" },
  link: { number: 2400, digest: "ab12" },
};
let verification: object = VERIFIED;

function open(path: string, total = 1, more: object = {}) {
  const calls: URL[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    calls.push(url);
    if (url.pathname === "/api/v1/audit/verify") return Response.json(verification);
    if (url.pathname === "/api/v1/audit/7") return Response.json(ROW);
    const offset = Number(url.searchParams.get("offset"));
    const rows = Array.from({ length: Math.min(100, total - offset) }, (_, index) => ({
      ...ROW,
      id: String(total - offset - index),
    }));
    return Response.json({ total, exact: true, searched_since: null, offset, limit: 100, rows, ...more });
  });
  const router = createRouter({
    routeTree: root.addChildren([...auditRoutes]),
    context: { queries: new QueryClient() },
    history: createMemoryHistory({ initialEntries: [path] }),
    parseSearch,
    stringifySearch,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return { calls, router };
}

test("a search is in the address and is sent as the gateway reads it", async () => {
  const { calls, router } = open("/audit?actor=ada&where=acme/billing&status=403");
  const grid = await screen.findByRole("grid", { name: "Audit log" });
  expect(within(grid).getByText("ada as billing-admin")).toBeDefined();
  expect(within(grid).getByText("set policy")).toBeDefined();
  const first = Object.fromEntries(calls[0]?.searchParams ?? []);
  expect(first).toEqual({
    ...{ actor: "ada", namespace: "acme/billing", status: "403" },
    ...{ sort: "-at", offset: "0", limit: "100" },
  });
  expect(screen.getByRole("link", { name: "CSV" }).getAttribute("href")).toBe(
    "/api/v1/audit.csv?actor=ada&status=403&namespace=acme%2Fbilling",
  );
  const user = userEvent.setup();
  await user.selectOptions(screen.getByLabelText("Method"), "DELETE");
  expect(router.state.location.search).toMatchObject({ method: "DELETE", actor: "ada" });
  await user.click(await screen.findByRole("button", { name: "Clear filters" }));
  expect(router.state.location.href).toBe("/audit");
});

test("an entry opens by keyboard and shows each value before and after", async () => {
  const { router } = open("/audit", 7);
  const user = userEvent.setup();
  (await screen.findByRole("columnheader", { name: "When" })).focus();
  await user.keyboard("{ArrowDown}{Enter}");
  const text = await screen.findByRole("region", { name: /policies.acme.billing: before and after/ });
  expect(router.state.location.pathname).toBe("/audit/7");
  expect(text.textContent).toContain('−   "ttl": 30');
  expect(text.textContent).toContain('+   "ttl": 60');
  const made = screen.getByRole("region", { name: "/admin/new: before and after" });
  expect(made.textContent).not.toContain("−");
  expect(screen.getByText("2 further changes left out.")).toBeDefined();
  expect(screen.getByRole("region", { name: "Body" }).textContent).toContain('"ttl": 60');
  expect(screen.getByRole("link", { name: "acme/billing" }).getAttribute("href")).toBe(
    "/audit?where=acme%2Fbilling",
  );
});

test("an answer that did not search all entries says so and leads to the older ones", async () => {
  open("/audit?q=x", 1, { searched_since: 1_600_000_000_000 });
  const link = await screen.findByRole("link", { name: "Search older ones" });
  expect(link.getAttribute("href")).toBe("/audit?q=x&to=1600000000000");
});

test("the time of a search is written when its field is left", async () => {
  const { router } = open("/audit");
  const user = userEvent.setup();
  const field = await screen.findByLabelText<HTMLInputElement>("From");
  await user.type(field, "2026-01-02T03:04:05");
  await user.tab();
  expect(router.state.location.search).toEqual({
    from: String(new Date("2026-01-02T03:04:05").getTime()),
  });
});

test("a verification counts the entries and shows the last link", async () => {
  verification = VERIFIED;
  const { calls } = open("/audit");
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Verify" }));
  const dialog = await screen.findByRole("dialog", { name: "Verify the audit log" });
  expect((await within(dialog).findByRole("status")).textContent).toContain("1,200 entries verified");
  expect(within(dialog).getByText("2400:ab12")).toBeDefined();
  expect(within(dialog).getByText(/entries up to 40/)).toBeDefined();
  expect(calls.filter(({ pathname }) => pathname.endsWith("/verify"))).toHaveLength(1);
});

test("a verification that fails names the first entry that does not fit and leads to it", async () => {
  const problem = "entry 7 or link 13 of the chain was changed";
  verification = { ...VERIFIED, problem, entry_id: "7", link: { number: 12, digest: "cd" } };
  open("/audit");
  const user = userEvent.setup();
  await user.click(await screen.findByRole("button", { name: "Verify" }));
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("Entry 7 or link 13 of the chain was changed.");
  expect(within(alert).getByRole("link").getAttribute("href")).toBe("/audit/7");
  expect(screen.getByText("12:cd")).toBeDefined();
});
