import { expect, test } from "vitest";
import type { FunctionRow } from "./function-queries";
import { ROWS_DRAWN_MAX, shortLabel, topologyOf } from "./topology-shape";

const row = (name: string, inputs: string[], output: string | null, more = {}): FunctionRow => ({
  component: "function",
  tenant: "public",
  namespace: "default",
  name,
  connector: "",
  class_name: "",
  state: "running",
  instances: 1,
  running: 1,
  unknown: 0,
  stopped: 0,
  workers: [],
  inputs,
  output,
  version: 0,
  created_at: 0,
  received_rate: 0,
  processed_rate: 0,
  failures: 0,
  failures_total: 0,
  latency_ms: null,
  ...more,
});

test("what is written lies right of what is read", () => {
  const { nodes } = topologyOf([row("b", ["y"], "z"), row("a", ["x"], "y")]);
  const at = Object.fromEntries(nodes.map(({ id, x }) => [id, x]));
  const order = ["x", "function public/default/a", "y", "function public/default/b", "z"].map((id) => at[id]);
  expect(order).toEqual([...order].sort((a, b) => Number(a) - Number(b)));
  expect(new Set(order).size).toBe(5);
});

test("sources and sinks have their other end outside", () => {
  const { nodes, edges } = topologyOf([
    row("in", [], "x", { component: "source", connector: "kafka" }),
    row("out", ["x"], null, { component: "sink" }),
  ]);
  expect(nodes.filter(({ kind }) => kind === "outside").map(({ label }) => label)).toEqual([
    "kafka",
    "elsewhere",
  ]);
  expect(edges).toHaveLength(4);
});

test("a cycle is drawn without end, and a topic once", () => {
  const { nodes, width } = topologyOf([row("a", ["x"], "y"), row("b", ["y"], "x")]);
  expect(nodes).toHaveLength(4);
  expect(width).toBeLessThan(1200);
});

test("a drawing has a bound, and no rows are no drawing", () => {
  const rows = Array.from({ length: ROWS_DRAWN_MAX + 5 }, (_, n) => row(`f${n}`, ["x"], null));
  expect(topologyOf(rows).nodes).toHaveLength(ROWS_DRAWN_MAX + 1);
  expect(topologyOf([]).nodes).toEqual([]);
  expect(shortLabel("a".repeat(40))).toHaveLength(24);
});
