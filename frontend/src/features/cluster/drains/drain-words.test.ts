import { expect, test } from "vitest";
import type { BrokerDrain, DrainPreview } from "./drain-queries";
import { drainOf, effectOf, endOf, progressOf, remarksOf } from "./drain-words";

const drain: BrokerDrain = {
  ...{ broker: "a:8080", since: 0, by: "anna", left: 3, moved: 2, unloaded: 0, refused: [] },
};
const preview: DrainPreview = {
  ...{ token: "t", at: 0, broker: "a:8080", state: "up", problem: "", total: 5, staying: 0 },
  ...{ topics: 9, producers: 1, consumers: 2, destinations: [], bundles: [] },
};

test("the progress of a drain is described, and unknown is not zero", () => {
  expect(progressOf(drain)).toBe("draining: 3 bundles left, 2 moved");
  const stuck = { subject: "t/n/x", reason: "no other broker", kind: "drain" };
  expect(progressOf({ ...drain, left: 1, moved: 0, refused: [stuck] })).toBe(
    "draining: 1 bundle left, 1 cannot leave yet",
  );
  expect(progressOf({ ...drain, left: 0 })).toBe("drained");
  const unknown = { ...drain, left: null, moved: null, unloaded: null };
  expect(progressOf(unknown)).toBe("draining; progress not known");
  expect(drainOf(unknown)).toContain("how many bundles it has is not known");
  expect(drainOf({ ...drain, left: 0 })).toContain("by anna. It has no bundle and receives none.");
  expect(drainOf({ ...drain, unloaded: 2 })).toContain("2 bundles were released for any broker");
});

test("the effect of a drain names what moves and what stays", () => {
  expect(effectOf(preview)).toContain("5 bundles move from a:8080 to other brokers. Their clients");
  expect(effectOf({ ...preview, staying: 1 })).toContain(
    "4 bundles move from a:8080 to other brokers. 1 bundle stays.",
  );
  expect(effectOf({ ...preview, staying: 5 })).toContain("None of the 5 bundles of a:8080 can move.");
  expect(effectOf({ ...preview, total: 1 })).toContain(
    "1 bundle moves from a:8080 to other brokers. Its clients",
  );
  expect(effectOf({ ...preview, total: 0 })).toContain("owns no bundle");
  expect(effectOf({ ...preview, problem: "it is the only broker" })).toBe("it is the only broker.");
  expect(remarksOf({ ...preview, problem: "it is the only broker" })).toEqual([]);
  expect(remarksOf({ ...preview, state: "down" })[0]).toContain("The broker is down");
  expect(endOf({ token: "t", at: 0, drain })).toContain("none moves back at once");
});
