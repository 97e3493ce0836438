// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Message } from "../../shared/messages/message";
import { draftOf, EMPTY, linesOf, messageOf, runsOf } from "./publish";

test("lines keep their numbers, and empty ones are left out", () => {
  expect(linesOf('{"value":1}\r\n\n  {"value":2}\n')).toEqual([
    { number: 1, text: '{"value":1}' },
    { number: 3, text: '{"value":2}' },
  ]);
});

test("runs are bounded by lines and by characters", () => {
  const line = (size: number, number: number) => ({ number, text: "x".repeat(size) });
  const many = Array.from({ length: 1_001 }, (_, index) => line(1, index + 1));
  expect(runsOf(many).map((run) => run.length)).toEqual([500, 500, 1]);
  const long = [line(200_000, 1), line(200_000, 2), line(900_000, 3), line(1, 4)];
  expect(runsOf(long).map((run) => run.map(({ number }) => number))).toEqual([[1], [2], [3], [4]]);
  expect(runsOf([])).toEqual([]);
});

test("a draft gives the fields that are set", () => {
  expect(messageOf({ ...EMPTY, value: "a" }, {})).toEqual({ value: "a" });
  expect(messageOf({ ...EMPTY, form: "none", value: "a", key: "k" }, {})).toEqual({ value: null, key: "k" });
  expect(
    messageOf(
      { ...EMPTY, form: "base64", value: "/w==", delivery: "after", seconds: "1.5", event: 5 },
      { a: "1" },
    ),
  ).toEqual({ value_base64: "/w==", properties: { a: "1" }, event_time: 5, deliver_after_ms: 1500 });
});

test("a stored message is sent again as it was", () => {
  const stored = {
    key: "aw==",
    key_is_base64: true,
    ordering_key: "bw==",
    properties: { a: "1", b: "=" },
    event: 7,
    value: { form: "bytes", text: "ff" },
  } as unknown as Message;
  const draft = draftOf(stored, "/w==");
  expect(messageOf(draft, { a: "1", b: "=" })).toEqual({
    value_base64: "/w==",
    key: "aw==",
    key_is_base64: true,
    ordering_key: "bw==",
    properties: { a: "1", b: "=" },
    event_time: 7,
  });
  expect(draftOf({ ...stored, value: { form: "none", text: "" } } as Message, null).form).toBe("none");
});
