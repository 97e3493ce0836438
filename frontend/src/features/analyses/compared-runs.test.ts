import { expect, test } from "vitest";
import type { RunResult } from "../../api/types";
import { comparedFigures, comparedParameters } from "./compared-runs";

function result(...rows: [key: string, value: number | string | null, unit?: string][]): RunResult {
  const summary = rows.map(([key, value, unit = ""]) => ({ key, label: key, value, unit }));
  return { schema_version: 1, analysis: "a", input: {}, summary, series: [], tables: [] };
}

test("figures have both values, and their change in percent where it has a meaning", () => {
  const figures = comparedFigures(
    result(["messages", 200], ["first", 1_000, "ms"], ["none", 0], ["gone", 3]),
    result(["messages", 300], ["first", 2_000, "ms"], ["none", 5], ["new", "x"]),
  );
  expect(figures.map(({ key, values, change }) => [key, ...values, change])).toEqual([
    ["messages", 200, 300, 50],
    ["first", 1_000, 2_000, null],
    ["none", 0, 5, null],
    ["gone", 3, null, null],
    ["new", null, "x", null],
  ]);
});

test("parameters that a run does not have are a dash", () => {
  expect(comparedParameters({ topic: "t", top: 5 }, { topic: "t", read: true })).toEqual([
    { name: "topic", values: ["t", "t"] },
    { name: "top", values: ["5", "—"] },
    { name: "read", values: ["—", "true"] },
  ]);
});
