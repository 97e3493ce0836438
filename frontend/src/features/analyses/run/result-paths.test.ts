import { expect, test } from "vitest";
import type { Cell } from "../../../api/types";
import { pathOf } from "./result-paths";

const row: Record<string, Cell> = {
  topic: "persistent://public/default/late orders-DLQ",
  origin: "persistent://public/default/orders",
  subscription: "ship/it",
  position: "5:17:2",
  first: 3,
  ledger: 5,
  bookie: "10.0.0.1:3181",
  reason: "timeout",
};
const path = (column: string, of = row) => pathOf(column, (key) => of[key] ?? null);

test("cells that name something with a page have its path", () => {
  expect(path("topic")).toBe("/t/public/default/late%20orders-DLQ/overview");
  expect(path("origin")).toBe("/t/public/default/orders/overview");
  expect(path("subscription")).toBe("/t/public/default/orders/subscriptions#ship%2Fit");
  expect(path("position")).toBe("/t/public/default/late%20orders-DLQ/messages/5%3A17%3A2");
  expect(path("ledger")).toBe("/t/public/default/late%20orders-DLQ/messages?position=5%3A0");
  expect(path("bookie")).toBe("/bookies");
});

test("a group of dead letters has the dialog that redrives it", () => {
  const group = { ...row, topic: `${row.topic}-partition-1`, shape: "JSON {id: number}", reason: null };
  const [page, search] = (path("group", group) ?? "").split("?");
  expect(page).toBe("/dead-letters");
  expect(Object.fromEntries(new URLSearchParams(search))).toEqual({
    topic: row.topic,
    shape: "JSON {id: number}",
    origin: row.origin,
    subscription: row.subscription,
  });
  expect(path("group")).toBeNull();
});

test("other cells have none", () => {
  expect([path("first"), path("reason")]).toEqual([null, null]);
  expect(path("position", { position: "5:17" })).toBeNull();
  expect(path("topic", { topic: "orders" })).toBeNull();
});
