import { describe, expect, test } from "vitest";
import type { MessageAtSubscription } from "./holding-queries";
import { acknowledgeRemarks, keyText, stateText } from "./holding-words";

const consumer = { name: "c1", address: "10.0.0.1:5000" };
const at: MessageAtSubscription = {
  name: "billing",
  type: "Shared",
  durable: true,
  state: "waiting",
  consumer: null,
  redeliveries: 0,
  slot: null,
  range: null,
  waits_for: null,
};

describe("the place of a message", () => {
  test("names the consumer that has it", () => {
    expect(stateText({ ...at, state: "delivered", consumer }, null)).toBe(
      "at c1 (10.0.0.1:5000), not acknowledged",
    );
  });

  test("names what a waiting message waits for", () => {
    expect(stateText(at, null)).toBe("waits for a consumer");
    expect(stateText({ ...at, consumer }, null)).toBe("waits for c1 (10.0.0.1:5000)");
    const waits_for = { name: "c2", address: "10.0.0.2:5000" };
    expect(stateText({ ...at, consumer, waits_for }, null)).toContain("until c2 (10.0.0.2:5000)");
  });

  test("says when a delayed message is due", () => {
    expect(stateText({ ...at, state: "delayed" }, 1_700_000_000_000)).toMatch(/^delayed until .*2023/);
  });
});

test("a key has a hash, a range and a consumer", () => {
  const key = { partition: 2, slot: 700, consumer, range: [0, 900], waits_for: null };
  expect(keyText(key)).toBe("partition 2: hash 700 of 0–900 goes to c1 (10.0.0.1:5000)");
  expect(keyText({ ...key, consumer: null, range: null })).toContain("no consumer");
});

test("an acknowledgement states whether a consumer has the message", () => {
  const preview = {
    token: "t",
    at: 0,
    message: "1:2",
    partition: null,
    state: "delivered" as const,
    deliver_at: null,
    consumer,
  };
  expect(acknowledgeRemarks(preview).join(" ")).toContain("c1 (10.0.0.1:5000) has received it");
  expect(acknowledgeRemarks(preview).join(" ")).toContain("All messages of its batch");
  expect(acknowledgeRemarks({ ...preview, message: "1:2:0" }).join(" ")).not.toContain("batch");
});
