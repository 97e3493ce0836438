// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { NeedsAttention } from "./needs-attention";

const AT = 1_800_000_000_000;
const totals = { topics: 216, subscriptions: 430, unknown: 0 };
const said = (known: boolean, since: number | null, settled: boolean, more = {}) =>
  render(
    <NeedsAttention
      attention={{ known, since, settled, items: [], more: 0 }}
      cluster="c"
      at={AT}
      totals={{ ...totals, ...more }}
    />,
  ).container.textContent;

test("that nothing needs attention is said only when all was looked at for long enough", () => {
  expect(said(true, AT - 60_000, true)).toMatch(
    /Nothing needs attention.*any of 430 subscriptions on 216 topics, looked at since \d\d:/,
  );
  expect(said(true, AT - 3_000, false)).toMatch(
    /^(?!.*Nothing needs).*Looking.*Nothing is found since \d\d:/,
  );
  expect(said(true, null, false)).toMatch(/^(?!.*Nothing needs).*Not all were looked at yet/);
  expect(said(true, null, false, { unknown: 3 })).toMatch(/3 of 216 topics were not looked at yet/);
  expect(said(false, AT - 60_000, true)).toMatch(/is not known/);
});
