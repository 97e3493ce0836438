import { describe, expect, test } from "vitest";
import { clampToGrid, moveInGrid } from "./grid-keys";

const shape = { rows: 100_000, columns: 11, page: 20 };
const press = (key: string, ctrl = false) => ({ key, ctrl });
const at = (row: number, column: number) => ({ row, column });

describe("moving in a grid", () => {
  test.each([
    ["ArrowDown", false, at(6, 3)],
    ["ArrowUp", false, at(4, 3)],
    ["ArrowLeft", false, at(5, 2)],
    ["ArrowRight", false, at(5, 4)],
    ["PageDown", false, at(24, 3)],
    ["PageUp", false, at(1, 3)],
    ["Home", false, at(5, 0)],
    ["End", false, at(5, 10)],
    ["Home", true, at(1, 0)],
    ["End", true, at(100_000, 10)],
  ])("%s (ctrl %s)", (key, ctrl, to) => {
    expect(moveInGrid(at(5, 3), press(key, ctrl), shape)).toEqual(to);
  });

  test("no key leaves the grid at its edges", () => {
    expect(moveInGrid(at(0, 0), press("ArrowUp"), shape)).toEqual(at(0, 0));
    expect(moveInGrid(at(0, 0), press("ArrowLeft"), shape)).toEqual(at(0, 0));
    expect(moveInGrid(at(100_000, 10), press("ArrowDown"), shape)).toEqual(at(100_000, 10));
    expect(moveInGrid(at(100_000, 10), press("PageDown"), shape)).toEqual(at(100_000, 10));
    expect(moveInGrid(at(7, 10), press("ArrowRight"), shape)).toEqual(at(7, 10));
  });

  test("down from the header enters the data, up from the first row returns to the header", () => {
    expect(moveInGrid(at(0, 2), press("ArrowDown"), shape)).toEqual(at(1, 2));
    expect(moveInGrid(at(1, 2), press("ArrowUp"), shape)).toEqual(at(0, 2));
  });

  test("keys that the grid does not handle are left to the browser", () => {
    for (const key of ["Tab", "a", "Escape", "F5"])
      expect(moveInGrid(at(5, 3), press(key), shape)).toBeNull();
  });

  test("an empty list keeps the focus in the header", () => {
    const empty = { rows: 0, columns: 3, page: 20 };
    for (const key of ["ArrowDown", "PageDown", "PageUp"])
      expect(moveInGrid(at(0, 1), press(key), empty)).toEqual(at(0, 1));
    expect(moveInGrid(at(0, 1), press("Home", true), empty)).toEqual(at(0, 0));
  });

  test("the focus moves to the last row when the list shrinks", () => {
    expect(clampToGrid(at(900, 4), { rows: 12, columns: 11 })).toEqual(at(12, 4));
  });
});
