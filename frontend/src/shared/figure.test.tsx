// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { health } from "../api/health";
import { count } from "../lib/format";
import { Figure, markOf, shareKnown } from "./figure";

const AT = 1_800_000_000_000;
const shown = (known: "live" | "at_rest" | "last" | "no", value: number | null) =>
  render(<Figure of={{ known, at: AT }} value={value} text={count} />).container;

test("a live number is plain, others have a time, and unknown is never 0", () => {
  expect(shown("live", 12_345).textContent).toBe("12,345");
  expect(shown("last", 12_345).textContent).toMatch(/^12,345, as last known at \d\d:/);
  expect(shown("at_rest", 0).textContent).toMatch(/^0, at rest: as stored, read at /);
  for (const known of ["live", "last", "at_rest", "no"] as const)
    expect(shown(known, null).textContent).toBe("—");
});

test("while the collector has no new data, no number is shown as live", () => {
  expect(markOf({ known: "live", at: AT }, true)).toBe("last");
  expect(markOf({ known: "at_rest", at: AT }, true)).toBe("at_rest");
  expect(markOf({ known: "live", at: AT }, false)).toBeNull();
  expect(health.view.stale).toBe(false);
});

test("a sum states the number of its parts", () => {
  expect(shareKnown({ topics: 216, unknown: 0, last: 0 })).toBe("");
  expect(shareKnown({ topics: 216, unknown: 3, last: 12 })).toBe(
    "12 of 216 topics: last known, 3: not known",
  );
});
