import { describe, expect, test } from "vitest";
import { nextSort, type Sort, sortedRows, sortIn, sorting, sortOf } from "./sorting";

describe("sorting", () => {
  test("a new column starts with its usual order, and activating it again reverses it", () => {
    expect(nextSort("topic", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "backlog", true)).toBe("backlog");
    expect(nextSort("backlog", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "topic", false)).toBe("topic");
  });

  test("only the sorted column is announced as sorted", () => {
    expect(sortOf("-backlog", "backlog")).toBe("descending");
    expect(sortOf("backlog", "backlog")).toBe("ascending");
    expect(sortOf("-backlog", "topic")).toBe("none");
  });

  test("an order of an address counts only if the list has it", () => {
    const fields = ["name", "backlog"] as const;
    expect(sortIn(fields, "-backlog", "name")).toBe("-backlog");
    expect(sortIn(fields, "backlog", "name")).toBe("backlog");
    for (const wrong of [undefined, "", "-", "--name", "other", "Name"])
      expect(sortIn(fields, wrong, "-backlog")).toBe("-backlog");
  });

  test("a header shows its order and writes the next one", () => {
    const written: string[] = [];
    const by = sorting<"name" | "backlog">("-backlog", (next) => written.push(next));
    expect([by("name").sort, by("backlog").sort]).toEqual(["none", "descending"]);
    by("name").onSort();
    by("backlog", true).onSort();
    expect(written).toEqual(["name", "backlog"]);
  });

  test("rows at hand have unknown values last, and equal ones as they were", () => {
    const rows = [
      { name: "a", size: 1 },
      { name: "b", size: null },
      { name: "c", size: 2 },
      { name: "d", size: 1 },
    ];
    const names = (sort: Sort<"name" | "size">) =>
      sortedRows(rows, sort, (row, field) => row[field])
        .map(({ name }) => name)
        .join("");
    expect(names("size")).toBe("adcb");
    expect(names("-size")).toBe("cadb");
    expect(names("-name")).toBe("dcba");
  });
});
