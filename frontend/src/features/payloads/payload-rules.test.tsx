// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRouter, RouterProvider } from "@tanstack/react-router";
import { configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { afterEach, expect, test, vi } from "vitest";
import { root } from "../../shared/roots";
import { payloadsRoute } from "./index";
import type { PayloadRule } from "./queries";

configure({ asyncUtilTimeout: 30_000 });
vi.setConfig({ testTimeout: 60_000 });
const sent: unknown[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  sent.length = 0;
});
window.scrollTo = () => {};

const BILLING: PayloadRule = { role: "app", level: "read", namespace: "acme/billing", shown: true };
const ALL: PayloadRule = { role: "", level: "", namespace: "acme/*", shown: false };
const AXE = { rules: { "color-contrast": { enabled: false } } };

/** Shows the page for stored rules; a change is refused with `refusals`, one after another, then made. */
async function open(rules: PayloadRule[], refusals: Response[] = []) {
  let stored = rules;
  vi.stubGlobal("fetch", async (request: Request) => {
    if (request.url.endsWith("/environment"))
      return Response.json({ authentication: false, now: Date.now() });
    if (new URL(request.url).pathname.endsWith("/roles"))
      return Response.json({ rows: [{ role: "app" }, { role: "billing-app" }] });
    if (request.method !== "PUT") return Response.json({ rows: stored });
    const body = await request.json();
    sent.push(body);
    const refusal = refusals.shift();
    if (refusal) return refusal;
    stored = body.rules;
    return Response.json({ rows: stored });
  });
  const router = createRouter({
    routeTree: root.addChildren([payloadsRoute]),
    context: { queries: new QueryClient() },
    history: createMemoryHistory({ initialEntries: ["/payload-rules"] }),
  });
  const page = render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText(/^Where no rule matches/);
  return page;
}

test("the page has the rules as sentences, and marks one without effect", async () => {
  const { container } = await open([ALL, BILLING]);
  expect(await screen.findByText(/^Sign-in is off/)).toBeDefined();
  const rules = within(screen.getByRole("list", { name: "Payload rules, in their order" }));
  expect(rules.getAllByRole("listitem").map(({ textContent }) => textContent)).toEqual([
    "Payloads of all namespaces of acme are hidden from everybody.",
    "Payloads of acme/billing are shown to the role app at the level read. Without effect: rule 1 decides before it.",
  ]);
  expect((await axe.run(container, AXE)).violations).toEqual([]);
});

test("rules are added, ordered, previewed and saved against those that were stored", async () => {
  const user = userEvent.setup();
  await open([ALL]);
  await user.click(screen.getByRole("button", { name: "Edit rules…" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Edit payload rules" }));
  const save = dialog.getByRole<HTMLButtonElement>("button", { name: "Save" });
  await dialog.findByText("Nothing would change.");
  await user.click(dialog.getByRole("button", { name: "Add rule" }));
  expect(dialog.getByRole("alert").textContent).toContain("Rule 2 needs a namespace");
  expect(save.disabled).toBe(true);
  await user.type(dialog.getByLabelText("Namespace of rule 2"), "acme/billing");
  await user.type(dialog.getByLabelText("Role of rule 2"), "app");
  await user.selectOptions(dialog.getByLabelText("Level of rule 2"), "read");
  await user.selectOptions(dialog.getByLabelText("Effect of rule 2"), "shown");
  await user.click(dialog.getByRole("button", { name: "Move rule 2 up" }));
  const preview = await dialog.findByRole("region", { name: "Rules now and then" });
  expect(preview.textContent).toContain(
    "+ Payloads of acme/billing are shown to the role app at the level read.",
  );
  expect((await axe.run(dialog.getByRole("group", { name: "Rules" }), AXE)).violations).toEqual([]);
  await user.click(save);
  expect((await dialog.findByRole("status")).textContent).toBe("2 rules in force.");
  expect(sent).toEqual([{ rules: [BILLING, ALL], expected: [ALL] }]);
});

test("a rule is removed, and its neighbours stay", async () => {
  const user = userEvent.setup();
  await open([BILLING, ALL]);
  await user.click(screen.getByRole("button", { name: "Edit rules…" }));
  const dialog = within(await screen.findByRole("dialog"));
  await user.click(dialog.getByRole("button", { name: "Remove rule 1" }));
  expect(document.activeElement).toBe(dialog.getByRole("button", { name: "Add rule" }));
  const preview = await dialog.findByRole("region", { name: "Rules now and then" });
  expect(preview.textContent).toContain("− Payloads of acme/billing");
  await user.click(dialog.getByRole("button", { name: "Save" }));
  await dialog.findByRole("status");
  expect(sent).toEqual([{ rules: [ALL], expected: [BILLING, ALL] }]);
});

test("rules that another user changed meanwhile are not overwritten", async () => {
  const user = userEvent.setup();
  const reason = "The payload rules were changed meanwhile; look at them again";
  await open([BILLING], [Response.json({ reason }, { status: 409 })]);
  await user.click(screen.getByRole("button", { name: "Edit rules…" }));
  const dialog = within(await screen.findByRole("dialog"));
  await user.click(dialog.getByRole("button", { name: "Remove rule 1" }));
  await dialog.findByRole("region", { name: "Rules now and then" });
  await user.click(dialog.getByRole("button", { name: "Save" }));
  expect((await dialog.findByRole("alert")).textContent).toContain(reason);
  expect(dialog.getByRole("button", { name: "Preview again" })).toBeDefined();
});

test("the known roles are proposed for a rule", async () => {
  const user = userEvent.setup();
  await open([BILLING]);
  await user.click(screen.getByRole("button", { name: "Edit rules…" }));
  const role = (await screen.findByLabelText("Role of rule 1")) as HTMLInputElement;
  await vi.waitFor(() =>
    expect([...(role.list?.options ?? [])].map(({ value }) => value)).toEqual(["app", "billing-app"]),
  );
});
