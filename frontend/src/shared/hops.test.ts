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

test("what pages are read through comes first, of that what is down, then what most depends on", () => {
  const hops = [
    hop("spark"),
    hop("store", "slow"),
    hop("broker", "down", "b"),
    hop("broker", "down", "a"),
    hop("store"),
  ];
  expect(ranked(hops).map(nameOfHop)).toEqual([
    "Metadata store",
    "Broker a",
    "Broker b",
    "Metadata store",
    "Analysis worker",
  ]);
});

test("a store that is apart has its own name", () => {
  expect(nameOfHop(hop("store", "down", "configuration"))).toBe("Configuration store");
});

test("a page waits for what it is read through, not for Redis or Spark, nor for what is only slow", () => {
  expect(standsInTheWay([hop("redis"), hop("spark"), hop("store", "slow")])).toBeUndefined();
  expect(standsInTheWay([hop("redis"), hop("bookie", "down", "1")])?.hop).toBe("bookie");
});
