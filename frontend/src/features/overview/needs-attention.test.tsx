// @vitest-environment jsdom

import { MantineProvider } from "@mantine/core";
import { render } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { dateTime } from "../../lib/format";
import { NeedsAttention } from "./needs-attention";

vi.mock("../../ui/path-link", () => ({ PathLink: ({ children }: { children: string }) => children }));
window.matchMedia = (query) =>
  ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} }) as never;

const AT = 1_800_000_000_000;
const totals = { topics: 216, subscriptions: 430, unknown: 0 };
const textOf = (known: boolean, since: number | null, settled: boolean, more = {}) =>
  render(
    <NeedsAttention
      attention={{ known, since, settled, items: [], more: 0 }}
      cluster="c"
      at={AT}
      totals={{ ...totals, ...more }}
    />,
  ).container.textContent;

test("the absence of problems is shown only when all parts were checked for long enough", () => {
  expect(textOf(true, AT - 60_000, true)).toMatch(
    /Nothing needs attention.*any of 430 subscriptions on 216 topics, checked since \d\d:/,
  );
  expect(textOf(true, AT - 3_000, false)).toMatch(
    /^(?!.*Nothing needs).*Checking.*No problem was found since \d\d:/,
  );
  expect(textOf(true, null, false)).toMatch(/^(?!.*Nothing needs).*Not all were checked yet/);
  expect(textOf(true, null, false, { unknown: 3 })).toMatch(/3 of 216 topics were not checked yet/);
  expect(textOf(false, AT - 60_000, true)).toMatch(/is not known/);
});

const item = {
  key: "k",
  severity: "error" as const,
  cause: "no-consumer",
  title: "s has no consumer",
  detail: "shop/orders/x · no consumer since the topic was loaded at 2026-11-25T22:13:30Z",
  advice: "Start its consumer. If the subscription is no longer needed, delete it: until then …",
  link: "",
  command: "",
  topic: "persistent://shop/orders/x",
  subscription: "s",
  count: 1,
  score: 1,
  since: AT,
  at_least: false,
};
const shown = (more: Partial<typeof item>, left = 0) =>
  render(
    <MantineProvider>
      <NeedsAttention
        attention={{ known: true, since: AT, settled: true, items: [{ ...item, ...more }], more: left }}
        cluster="c"
        at={AT}
        totals={totals}
      />
    </MantineProvider>,
  );

test("an item about a subscription offers the analysis that explains it", () => {
  expect(shown({}).container.textContent).toContain("Who is behind");
  expect(shown({ subscription: "" }).container.textContent).not.toContain("Who is behind");
});

test("an item shows times in the local time zone, and its advice links to its subject", () => {
  const { container } = shown({});
  expect(container.textContent).toContain(`loaded at ${dateTime(Date.parse("2026-11-25T22:13:30Z"))}`);
  expect(container.textContent).toContain("Delete the subscription…");
});

test("a part's item has the command that starts it, and its title has the complete text", () => {
  const { container, getByRole } = shown({ topic: "", command: "standalone start bookie-1" });
  expect(getByRole("button", { name: "Copy the command that starts it" })).toBeTruthy();
  expect(container.querySelector<HTMLElement>("li [title]")?.title).toContain(
    "s has no consumer\nshop/orders/x",
  );
});

test("an item with an unknown start is shown as at least since its detection", () => {
  expect(shown({ at_least: true }).container.textContent).toMatch(/at least since \d\d:/);
  expect(shown({}).container.querySelector("time")?.textContent).toMatch(/^since \d\d:/);
});
