import { expect, test } from "vitest";
import { numbers } from "./partition-numbers";

test("partitions are named in runs", () => {
  expect(numbers([0, 1, 2, 7], 9)).toBe("0–2, 7");
  expect(numbers([0, 1, 2], 3)).toBe("all 3");
  expect(numbers([0], 1)).toBe("0");
});
