import { expect, test } from "vitest";
import type { Coordinator, Transaction } from "./transaction-queries";
import { ageOf, idOf, placesOf, reportedNumber, silentText } from "./transaction-words";

const of: Transaction = {
  coordinator: 1,
  number: 7,
  status: "OPEN",
  since: 0,
  timeout_ms: 60_000,
  owner: null,
  topics: ["persistent://a/b/c"],
  subscriptions: [{ topic: "persistent://a/b/d", subscription: "s" }],
};
const coordinator: Coordinator = {
  coordinator: 0,
  broker: null,
  state: null,
  open: null,
  newest: null,
  low_water_mark: null,
  ready_at: null,
  reason: "",
};

test("only the ages that are offered are filters", () => {
  expect(["60", "", undefined, "61", "-1"].map(ageOf)).toEqual([60, 0, 0, 0, 0]);
});

test("a transaction is named as in Apache's tools, with what it has to do with", () => {
  expect(idOf(of)).toBe("(1,7)");
  expect(placesOf(of)).toEqual([
    { text: "publishes to", name: "persistent://a/b/c" },
    { text: "acknowledges s of", name: "persistent://a/b/d" },
  ]);
});

test("coordinators that do not answer are named with the reason", () => {
  expect(silentText([coordinator])).toBe("");
  expect(silentText([coordinator, { ...coordinator, coordinator: 3, reason: "no broker" }])).toBe(
    "These coordinators do not answer, and their transactions are not known: 3 (no broker)",
  );
});

test("a coordinator without a transaction so far, and one that is silent, show no number", () => {
  expect([null, -1, 0, 12].map(reportedNumber)).toEqual(["—", "none so far", "0", "12"]);
});
