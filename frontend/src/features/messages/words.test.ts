import { expect, test } from "vitest";
import type { Message } from "../../shared/messages/message";
import type { MessagesPage } from "./queries";
import { firstLine, kindText, lackText, type MessageChunks, stoppedText } from "./words";

const message = (more: object) =>
  ({
    ...{ kind: "message", chunk: null, marker: null, problem: null },
    value: { form: "text", text: "hello\n  world", bytes: 13, cut: false, schema_version: null, error: null },
    ...more,
  }) as Message;

test("a value is one line in a list, and a cut one says so", () => {
  expect(firstLine(message({}))).toBe("hello world");
  expect(firstLine(message({ value: { form: "text", text: "x".repeat(300), cut: false } }))).toBe(
    `${"x".repeat(200)}…`,
  );
  expect(firstLine(message({ value: { form: "none", text: "" } }))).toBe("no value");
  expect(firstLine(message({ problem: "its checksum does not match" }))).toBe("its checksum does not match");
});

test("what is no whole message is named", () => {
  expect(kindText(message({ kind: "chunk", chunk: { index: 1, size: 3, message: "u" } }))).toBe(
    "chunk 2 of 3",
  );
  expect(kindText(message({ kind: "message", chunk: { index: 2, size: 3, message: "u" } }))).toBe(
    "message in 3 chunks",
  );
  expect(kindText(message({ kind: "marker", marker: "txn commit" }))).toBe("txn commit");
  expect(kindText(message({ kind: "encrypted" }))).toBe("encrypted");
});

test("the reason of the end depends on the direction", () => {
  const page = (stopped: string, direction: string) => ({ stopped, direction }) as MessagesPage;
  expect(stoppedText(page("end", "forward"))).toBe("This was the newest message.");
  expect(stoppedText(page("end", "backward"))).toBe("This was the oldest message.");
  expect(stoppedText(page("limit", "forward"))).toBe("There are more.");
});

test("chunks that are missing are named, and what was not looked at is not said to be missing", () => {
  const none = { unread: null, begun_again: null, is_large: false, is_whole: false };
  const chunks = (more: Partial<MessageChunks>) => ({
    size: 40,
    positions: [],
    missing: [],
    ...none,
    ...more,
  });
  expect(lackText(chunks({ missing: [1, 4] }))).toBe(
    "The message is not complete: chunk 2, 5 of 40 is not stored. No client receives it.",
  );
  expect(lackText(chunks({ missing: [1], unread: "Broker b does not answer" }))).toBe(
    "The message is not shown as a whole: chunk 2 of 40 was not found.",
  );
  const many = Array.from({ length: 30 }, (_, index) => index);
  expect(lackText(chunks({ missing: many }))).toContain("19, 20 and 10 more of 40 is not stored");
  expect(lackText(chunks({ missing: [2], begun_again: "5:7" }))).toContain("sent the whole message again");
  expect(lackText(chunks({ is_large: true }))).toContain("of 40 chunks is too large");
});
