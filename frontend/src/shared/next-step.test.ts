// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Lag } from "../api/types";
import { nextStep } from "./next-step";
import { LAG_CAUSES } from "./problems";

const at = { domain: "persistent", tenant: "shop", namespace: "orders", topic: "a b" };
const step = (cause: Lag["cause"], advice = "", subscription = "s/1") =>
  nextStep({ cause, advice }, "here", at, subscription);

test("an advice to delete opens the deletion dialog, and is absent after an outage", () => {
  expect(step("no-consumer", "Start its consumer. If …, delete it: …")).toEqual({
    label: "Delete the subscription…",
    path: "/c/here/t/shop/orders/a%20b/subscriptions?act=delete&sub=s%2F1",
  });
  expect(step("no-consumer", "Start its consumer.")).toBeNull();
  expect(step("no-consumer", "delete it", "")).toBeNull();
});

test("an advice to restart a consumer opens the disconnection dialog", () => {
  for (const cause of ["held", "standby", "no-permits", "unacked-limit", "not-acknowledged"] as const)
    expect(step(cause)).toMatchObject({
      path: "/c/here/t/shop/orders/a%20b/subscriptions?act=disconnect&sub=s%2F1",
    });
  const live = nextStep({ cause: "held", advice: "" }, "here", { ...at, domain: "non-persistent" }, "s");
  expect(live).toMatchObject({
    path: "/c/here/t/shop/orders/a%20b/subscriptions?domain=non-persistent&act=disconnect&sub=s",
  });
});

test("each cause has a next step, except those that only clients can resolve", () => {
  const without = LAG_CAUSES.filter((cause) => step(cause, "delete it") === null);
  expect(without).toEqual(["reconnecting", "delayed"]);
  expect(step("rate-limit")).toMatchObject({ path: "/c/here/t/shop/orders/a%20b/policies" });
  const other = nextStep(
    { cause: "slow", advice: "" },
    "here",
    { ...at, domain: "non-persistent", tenant: "t", namespace: "n", topic: "x" },
    "s",
  );
  expect(other).toMatchObject({ path: "/c/here/t/t/n/x/manage?domain=non-persistent" });
});
