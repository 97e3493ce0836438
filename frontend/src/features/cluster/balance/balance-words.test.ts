import { expect, test } from "vitest";
import type { Balance, BrokerLoad, MovedBundle } from "./balance-queries";
import { ageOf, changesOf, resultOf, routeOf, stateOf, staysOf } from "./balance-words";

const load: BrokerLoad = {
  ...{ broker: "a:8080", load: 0.5, why: "", at: 1_000, bundles: 4, gains: 0, losses: 0 },
};
const balance: Balance = {
  ...{ leader: "a:8080", reason: "", at: 5_000, spread: 0.1, spread_max: 0.25 },
  ...{
    loads: [load, { ...load, broker: "b:8080" }],
    not_moved: [],
    not_split: [],
    silent: [],
    moves: [],
    drains: [],
  },
};

test("each state of the balance is described in words", () => {
  expect(stateOf(balance)).toBe(
    "a:8080 leads. The standard deviation of the loads is 10 %; bundles are moved above 25 %.",
  );
  expect(stateOf({ ...balance, spread: null })).toContain("is not known");
  expect(stateOf({ ...balance, loads: [load] })).toContain("There is one broker only");
  expect(stateOf({ ...balance, leader: null, reason: "no broker leads now" })).toContain(
    "No broker leads now",
  );
  expect(stateOf({ ...balance, reason: "the leader is not registered" })).toBe(
    "a:8080 leads, and there is no plan:",
  );
});

test("only moves of the last plan qualify the reasons", () => {
  const move: MovedBundle = {
    ...{ kind: "balance", bundle: "t/n/x", from_broker: "a", to_broker: "b" },
    ...{ reason: "", result: "", at: 5_000 },
  };
  expect(staysOf(balance)).toBe("Nothing is moved because …");
  expect(staysOf({ ...balance, moves: [move] })).toBe("Nothing else is moved because …");
  expect(staysOf({ ...balance, moves: [{ ...move, at: 4_000 }] })).toBe("Nothing is moved because …");
  expect(staysOf({ ...balance, moves: [{ ...move, kind: "drain" }] })).toBe("Nothing is moved because …");
  expect(routeOf(move)).toBe("a → b");
  expect(routeOf({ ...move, kind: "drain" })).toBe("a → b, drained");
  expect(routeOf({ ...move, kind: "operator" })).toBe("a → b, by request");
  expect(routeOf({ ...move, kind: "split", to_broker: "" })).toBe("split by a");
});

test("unknown changes and results are not zero", () => {
  expect(changesOf(load)).toBe("");
  expect(changesOf({ ...load, gains: 2, losses: 1 })).toBe("2 bundles acquired, 1 bundle lost");
  expect(changesOf({ ...load, gains: null, losses: null })).toBe("");
  expect([ageOf(load, 9_000), ageOf({ ...load, at: null }, 9_000)]).toEqual([
    "reported 8 s ago",
    "no report yet",
  ]);
  expect([resultOf(""), resultOf("moved")]).toEqual(["not known", "moved"]);
});
