// @vitest-environment jsdom
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { afterEach, expect, test, vi } from "vitest";
import { dateTime } from "../../lib/format";
import { stringifySearch } from "../../lib/url-state";
import { ChangeMarks } from "./change-marks";

afterEach(() => vi.unstubAllGlobals());
window.scrollTo = () => {};

const TOPIC = "persistent://acme/billing/orders";
const mark = (seconds: number, more: object = {}) => ({
  ...{ at: seconds * 1000, operation: "setTopicPolicy", method: "POST", status: 200, actor: "", id: "" },
  ...more,
});

interface Answers {
  ofTopic: Response;
  ofNamespace?: Response;
}

function show(
  { ofTopic, ofNamespace = Response.json({ complete: true, rows: [] }) }: Answers,
  topic: string | null = TOPIC,
) {
  const calls: URL[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const url = new URL(request.url);
    calls.push(url);
    return (url.searchParams.has("topic") ? ofTopic : ofNamespace).clone();
  });
  const page = createRootRoute({
    component: () => (
      <ChangeMarks cluster="standalone" topic={topic} minutes={15} title="Backlog" from={900} to={1800} />
    ),
  });
  const router = createRouter({
    routeTree: page,
    history: createMemoryHistory({ initialEntries: ["/"] }),
    stringifySearch,
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return calls;
}

test("a user without the audit log sees time and operation at focus, and no link", async () => {
  const calls = show({ ofTopic: Response.json({ complete: true, rows: [mark(1000)] }) });
  const list = await screen.findByRole("list", { name: "Changes: Backlog" });
  const text = `${dateTime(1_000_000)} set topic policy`;
  expect(within(list).getByRole("button", { name: `Change: ${text}` })).toBeDefined();
  await userEvent.setup().tab();
  expect((await screen.findByRole("tooltip")).textContent).toBe(text);
  expect(screen.queryByRole("link")).toBeNull();
  const places = calls.map(({ searchParams }) => {
    expect(Number(searchParams.get("from"))).toBeGreaterThan(0);
    searchParams.delete("from");
    return Object.fromEntries(searchParams);
  });
  expect(places).toEqual([{ topic: TOPIC }, { tenant: "acme", namespace: "billing" }]);
  const found = await axe.run(list, { rules: { "color-contrast": { enabled: false } } });
  expect(found.violations).toEqual([]);
});

test("a chart of the cluster marks the changes of the cluster itself", async () => {
  const ofNamespace = Response.json({ complete: true, rows: [mark(1000, { id: "7" })] });
  const calls = show({ ofTopic: Response.error(), ofNamespace }, null);
  const link = await screen.findByRole("link", { name: /^Change: / });
  expect(link.getAttribute("href")).toBe("/audit/7");
  expect(calls.map(({ searchParams }) => [...searchParams.keys()])).toEqual([["from"]]);
});

test("a superuser opens the entry of a change, and the search of changes that share a place", async () => {
  const rows = [
    mark(1000, { id: "7", actor: "ada" }),
    mark(1500, { id: "8", actor: "ada" }),
    mark(1501, { id: "9", actor: "eve" }),
  ];
  show({
    ofTopic: Response.json({ complete: true, rows }),
    ofNamespace: Response.json({ complete: true, rows: [mark(1502, { id: "10", actor: "ada" })] }),
  });
  const alone = await screen.findByRole("link", { name: /^Change: .*, by ada$/ });
  expect(alone.getAttribute("href")).toBe("/audit/7");
  const several = screen.getByRole("link", { name: /^3 changes: .*by eve.*of the namespace, by ada$/ });
  expect(several.getAttribute("href")).toBe("/audit?where=acme%2Fbilling&from=1500000&to=1502000");
});

test("marks that may be missing are reported, and a namespace that the user may not see is none", async () => {
  const refused = Response.json({ reason: "no" }, { status: 403 });
  show({ ofTopic: Response.json({ complete: false, rows: [mark(1000)] }), ofNamespace: refused });
  expect(await screen.findByText("Only the newest changes are marked")).toBeDefined();
  expect(screen.queryByText("Changes are not known")).toBeNull();
});

test("changes that could not be read are not shown as none", async () => {
  show({ ofTopic: Response.json({ reason: "no" }, { status: 503 }) });
  expect(await screen.findByText("Changes are not known")).toBeDefined();
});
