import { describe, expect, test } from "vitest";
import { fitting, NARROW_PX } from "./fitting";

const columns = [
  { key: "name", min: 200, always: true },
  { key: "backlog", min: 80, always: true },
  { key: "in", min: 80 },
  { key: "wide", min: 300 },
  { key: "out", min: 80 },
  { key: "stored", min: 80, always: true },
];
const keys = (width: number) => fitting(columns, width).columns.map((column) => column.key);

describe("columns of a grid", () => {
  test("required columns are shown at every width", () => {
    for (const width of [1, 100, 351, 600, 736, 1040, 1680])
      expect(keys(width)).toEqual(expect.arrayContaining(["name", "backlog", "stored"]));
  });

  test("the others appear in order up to the first that does not fit", () => {
    expect(keys(2000)).toEqual(["name", "backlog", "in", "wide", "out", "stored"]);
    expect(keys(620)).toEqual(["name", "backlog", "in", "stored"]);
    expect(fitting(columns, 620).left).toBe(2);
  });

  test("a narrow grid has a separate line for the name, which leaves its width to others", () => {
    const { columns: shown, twoLines, template } = fitting(columns, NARROW_PX - 1);
    expect(twoLines).toBe(true);
    expect(shown[0]?.key).toBe("name");
    expect(template.split("minmax").length - 1).toBe(shown.length - 1);
  });

  test("on two lines fixed columns keep their width, and the others share the rest", () => {
    const state = { key: "state", min: 154, narrow: 131, always: true };
    const { template, columns: shown } = fitting(
      [...columns.slice(0, 1), state, ...columns.slice(1, 3)],
      345,
    );
    expect(template).toBe("131px minmax(0, 80fr) minmax(0, 80fr)");
    expect(shown.map(({ key }) => key)).toEqual(["name", "state", "backlog", "in"]);
    expect(fitting([...columns.slice(0, 1), state], 800).template).toContain("minmax(154px, ");
  });

  test("all columns are shown before the first measurement", () => {
    expect(keys(0)).toHaveLength(columns.length);
  });
});
