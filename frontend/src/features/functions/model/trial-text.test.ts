import { expect, it } from "vitest";
import type { TriedMessage } from "./function-queries";
import { trialText, valueText } from "./trial-text";

const message: TriedMessage = {
  topic: "persistent://t/n/in",
  id: "1:2",
  key: null,
  published_at: 0,
  input: { text: "a", bytes: 1 },
  output: { base64: "AP8=", bytes: 2 },
  publications: [{ topic: "persistent://t/n/x", key: null, value: { text: "b", bytes: 1 }, properties: {} }],
  logs: ["INFO seen"],
  state: [{ key: "k", value: null }],
  metrics: {},
  acknowledged: 0,
  dropped: 0,
  error: "",
  took_ms: 1,
};

it("shows the result, publications, state and log of a message", () => {
  expect(trialText(message).split("\n")).toEqual([
    "input    a",
    "output   AP8=",
    "publish  persistent://t/n/x: b",
    "state    k = deleted",
    "log      INFO seen",
  ]);
  expect(valueText(null)).toBe("nothing");
});

it("shows the exception in place of a result", () => {
  const text = trialText({ ...message, output: null, error: "Traceback\nValueError: a\n", dropped: 2 });
  expect(text).toContain("ValueError: a\npublish");
  expect(text).not.toContain("output");
  expect(text.endsWith("and 2 more lines")).toBe(true);
});
