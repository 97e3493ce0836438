// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRouter, RouterProvider } from "@tanstack/react-router";
import { configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { parseSearch, stringifySearch } from "../../lib/url-state";
import { cluster, root } from "../../shared/roots";
import { tenantRoutes } from "./index";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => vi.unstubAllGlobals());
window.scrollTo = () => {};

const TOTAL = 250;
const TENANT = { name: "acme", admin_roles: [], allowed_clusters: [], namespaces: TOTAL, numbers: null };
const NAMESPACE = { topics: 0, policies: 0, deleting: false, numbers: null, quotas: [] };

/** Opens a page, of whose list the gateway has 250 rows. Returns the windows that were asked for, and the router. */
function open(path: string) {
  const windows: Record<string, string>[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    if (!/\/(tenants|namespaces)$/.test(url.pathname)) return Response.json({ rows: [] });
    const asked = Object.fromEntries(url.searchParams);
    windows.push(asked);
    const offset = Number(asked.offset);
    const rows = Array.from({ length: Math.min(Number(asked.limit), TOTAL - offset) }, (_, index) =>
      url.pathname.endsWith("/tenants")
        ? { ...TENANT, name: `t${offset + index}` }
        : { ...NAMESPACE, name: `n${offset + index}` },
    );
    return Response.json({ total: TOTAL, offset, limit: Number(asked.limit), tenant: TENANT, rows });
  });
  const queries = new QueryClient();
  const router = createRouter({
    routeTree: root.addChildren([cluster.addChildren([...tenantRoutes])]),
    context: { queries },
    history: createMemoryHistory({ initialEntries: [path] }),
    parseSearch,
    stringifySearch,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return { windows, router };
}

test.each([
  ["/c/east/tenants", "Tenants", "t"],
  ["/c/east/tenants/acme", "Namespaces of acme", "n"],
])("the rows of %s are turned page by page and sorted by the gateway", async (path, caption, letter) => {
  const { windows, router } = open(path);
  const user = userEvent.setup();
  const table = await screen.findByRole("table", { name: caption });
  within(table).getByText(`${letter}99`);
  expect(windows.at(-1)).toEqual({ sort: "name", offset: "0", limit: "100" });

  await user.click(screen.getByRole("button", { name: "Next" }));
  await screen.findByText(`${letter}100`);
  expect(router.state.location.href).toBe(`${path}?page=2`);
  await user.click(screen.getByRole("button", { name: "Next" }));
  await screen.findByText(`${letter}249`);
  expect((screen.getByRole("button", { name: "Next" }) as HTMLButtonElement).disabled).toBe(true);

  await user.click(screen.getByRole("button", { name: "Backlog" }));
  await screen.findByText(`${letter}0`);
  expect(router.state.location.search).toEqual({ sort: "-backlog" });
  expect(windows.at(-1)).toEqual({ sort: "-backlog", offset: "0", limit: "100" });
  const header = screen.getByRole("columnheader", { name: /Backlog/ });
  expect(header.getAttribute("aria-sort")).toBe("descending");

  await user.click(screen.getByRole("button", { name: "Next" }));
  await screen.findByText(`${letter}100`);
  await user.type(screen.getByRole("textbox", { name: "Part of the name" }), "x");
  await vi.waitFor(() => expect(router.state.location.search).toEqual({ sort: "-backlog", q: "x" }));
  expect(windows.at(-1)).toEqual({ q: "x", sort: "-backlog", offset: "0", limit: "100" });
});

test("an order that the list does not have is that of names", async () => {
  const { windows } = open("/c/east/tenants?sort=-no_such_field");
  await screen.findByRole("table", { name: "Tenants" });
  expect(new Set(windows.map(({ sort }) => sort))).toEqual(new Set(["name"]));
});
