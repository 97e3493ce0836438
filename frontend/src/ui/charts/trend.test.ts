import { expect, test } from "vitest";
import { trendPath } from "./trend";

test("a trend has a gap where values are unknown", () => {
  expect(trendPath([0, 10, null, 5, 5]).match(/M/g)).toHaveLength(2);
  expect(trendPath([0, 10, 5]).match(/[ML]/g)).toEqual(["M", "L", "L"]);
});

test("one point is no trend", () => {
  expect(trendPath([null, 3])).toBe("");
  expect(trendPath([])).toBe("");
});
