// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Lag } from "../api/types";
import { nextStep } from "./next-step";
import { LAG_CAUSES } from "./problems";

const at = { domain: "persistent", tenant: "shop", namespace: "orders", topic: "a b" };
const step = (cause: Lag["cause"], advice = "", subscription = "s/1") =>
  nextStep({ cause, advice }, "here", at, subscription);

test("advice that deletes has its command, and after an outage there is neither", () => {
  expect(step("no-consumer", "Start its consumer. If …, delete it: …")).toMatchObject({
    command: expect.stringMatching(
      /^curl -f -X DELETE .*\/admin\/v2\/persistent\/shop\/orders\/a%20b\/subscription\/s%252F1'?$/,
    ),
  });
  expect(step("no-consumer", "Start its consumer.")).toBeNull();
  expect(step("no-consumer", "delete it", "")).toBeNull();
});

test("each cause leads on, but for those that only its clients can end", () => {
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
