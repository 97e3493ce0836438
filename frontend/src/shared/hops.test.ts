import { expect, test } from "vitest";
import type { Hop } from "../api/types";
import { nameOfHop, ranked, standsInTheWay } from "./hops";

const hop = (of: Hop["hop"], state: Hop["state"] = "down", id = ""): Hop => ({
  hop: of,
  id,
  state,
  since: 0,
  reason: "",
  advice: "",
});

test("parts on the read path are first, then failed ones, then those with most dependents", () => {
  const hops = [
    hop("spark"),
    hop("store", "slow"),
    hop("broker", "down", "b"),
    hop("functions", "down", "fw-1"),
    hop("broker", "down", "a"),
    hop("store"),
  ];
  expect(ranked(hops).map(nameOfHop)).toEqual([
    "Metadata store",
    "Broker a",
    "Broker b",
    "Metadata store",
    "Functions worker fw-1",
    "Analysis worker",
  ]);
});

test("a separate store has its own name", () => {
  expect(nameOfHop(hop("store", "down", "configuration"))).toBe("Configuration store");
});

test("a page waits for parts on its read path, not for Redis, Spark or slow parts", () => {
  expect(
    standsInTheWay([hop("redis"), hop("spark"), hop("functions"), hop("store", "slow")]),
  ).toBeUndefined();
  expect(standsInTheWay([hop("redis"), hop("bookie", "down", "1")])?.hop).toBe("bookie");
});
