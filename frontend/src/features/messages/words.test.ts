import { expect, test } from "vitest";
import type { Message } from "../../shared/messages/message";
import type { MessagesPage } from "./queries";
import { firstLine, kindText, stoppedText } from "./words";

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
