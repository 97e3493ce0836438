// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import type { Place } from "../may";
import { GrantsPanel } from "./grants-panel";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
const sent: { url: URL; body: Record<string, unknown> }[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  sent.length = 0;
});

const AT = { tenant: "acme", namespace: "billing", topic: "", subscription: "" };
const ROWS = [
  { ...AT, kind: "tenant", namespace: "", role: "acme-admin", words: ["admin"] },
  { ...AT, kind: "namespace", role: "app", words: ["produce"] },
  { ...AT, kind: "subscription", subscription: "audit", role: "auditor", words: ["use"] },
];
const PLACE = { tenant: "acme", namespace: "billing" };

function show(why: string | null = null, place: Place = PLACE) {
  let granted: string[] = ["produce"];
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    if (request.method === "GET") return Response.json({ rows: ROWS });
    const body = await request.json();
    sent.push({ url, body });
    if (body.preview)
      return Response.json({
        ...{ token: "t", at: 1, before: granted, after: body.words, own_loss: true },
        ...{
          connections: { producers: 2, consumers: 1, by_proxy: 1 },
          within_s: 1,
          effects: [{ role: "app", gained: ["consume"], lost: [] }],
        },
      });
    const before = granted;
    granted = ["produce", "consume"];
    const closed = { producers: 2, consumers: 0 };
    return Response.json({ at: 2, role: "app", subscription: "", before, after: granted, closed });
  });
  window.scrollTo = () => {};
  const router = createRouter({
    routeTree: createRootRoute({
      component: () => <GrantsPanel cluster="standalone" place={place} why={why} />,
    }),
    history: createMemoryHistory({ initialEntries: ["/"] }),
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("a grant is changed as previewed, and the receipt leads to the way back", async () => {
  const user = userEvent.setup();
  show();
  await user.click(await screen.findByRole("button", { name: "Change… app" }));
  const dialog = await screen.findByRole("dialog");
  await user.click(within(dialog).getByRole("checkbox", { name: "consume" }));
  await within(dialog).findByText("produce → produce, consume", { exact: false });
  expect(dialog.textContent).toContain("app gains consume");
  expect(dialog.textContent).toContain("Your own role loses a right by it.");
  expect(dialog.textContent).toContain(
    "2 producers and 1 consumer would be closed, 1 of them of WebSockets and proxies.",
  );
  await user.click(within(dialog).getByRole("button", { name: "Change" }));
  await screen.findByText("app is granted produce, consume now. 2 producers closed.");
  expect(sent.at(-1)?.body).toEqual({ token: "t" });
  expect(sent.at(-1)?.url.search).toBe("?tenant=acme&namespace=billing");
  await user.click(screen.getByRole("button", { name: "Undo…" }));
  await screen.findByRole("button", { name: "Undo" });
  await vi.waitFor(() =>
    expect(sent.at(-1)?.body).toEqual({ preview: true, role: "app", words: ["produce"] }),
  );
});

test("grants of the place can be changed, those of places around it are shown with their place", async () => {
  show();
  await screen.findByRole("button", { name: "Remove… app" });
  expect(screen.getAllByText("tenant acme").length).toBeGreaterThan(0);
  expect(screen.queryByRole("button", { name: "Remove… acme-admin" })).toBeNull();
  expect(screen.getByRole("button", { name: "Remove… auditor on audit" })).toBeDefined();
});

test("a grant of a subscription needs no words", async () => {
  const user = userEvent.setup();
  show();
  await user.click(await screen.findByRole("button", { name: "Grant…" }));
  await user.type(await screen.findByLabelText("Role"), "auditor");
  await user.type(screen.getByLabelText("Subscription"), "audit");
  await vi.waitFor(() =>
    expect(sent.at(-1)?.body).toEqual({
      ...{ preview: true, role: "auditor" },
      ...{ words: ["use"], subscription: "audit" },
    }),
  );
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("who may not grant sees the reason at the buttons", async () => {
  show("Needs tenant admin of acme.");
  const button = await screen.findByRole("button", { name: "Grant…" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
});
