// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { Quota } from "./quota";

const AGE = { name: "backlog age" as const, limit: 3600, used: 1800, share: 0.5, at_most: false };
const SIZE = { name: "backlog size" as const, limit: 1024, used: 2048, share: 2, at_most: true };

function shown(...quotas: Parameters<typeof Quota>[0]["of"]) {
  const { container } = render(<Quota of={quotas} />);
  return [container.textContent, container.querySelector("span")?.title];
}

test("the fullest limit is shown, an upper bound as one, and all limits are named", () => {
  expect(shown(SIZE, AGE)).toEqual([
    "≤ 200 % of backlog size",
    "backlog size: at most 2 KiB of 1 KiB; backlog age: 30 min of 1 h",
  ]);
});

test("what is used of a limit may be unknown, which is not zero", () => {
  const unknown = { ...AGE, used: null, share: null };
  expect(shown(unknown)).toEqual(["— of backlog age", "backlog age: not known of 1 h"]);
  expect(shown({ ...AGE, used: 1, share: 1 / 3600 })[0]).toBe("<1 % of backlog age");
});

test("a namespace without limits has none used", () => {
  expect(shown()[0]).toBe("—");
});
