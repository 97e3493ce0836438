// @vitest-environment jsdom
import { expect, test } from "vitest";
import { pagesOf } from "./use-list-window";

test("a screen of rows needs the one or two pages that hold them", () => {
  expect(pagesOf(0, 40)).toEqual([0]);
  expect(pagesOf(80, 120)).toEqual([0, 100]);
  expect(pagesOf(99_960, 99_999)).toEqual([99_900]);
  expect(pagesOf(-3, 0)).toEqual([0]);
});
