import { expect, test } from "vitest";
import { type Backlog, backlogText, backlogWords, oldestText } from "./backlog-words";

const of = (backlog: number | null, messages: number | null, estimated = 0, unmeasured = 0): Backlog => ({
  backlog,
  backlog_messages: messages,
  backlog_estimated: estimated,
  backlog_unmeasured: unmeasured,
});

test("a backlog is in messages (exact, estimated, a minimum), else in entries", () => {
  expect(backlogText(of(400, 400))).toBe("400");
  expect(backlogText(of(0, 0))).toBe("0");
  expect(backlogText(of(4, 320))).toBe("320 (4 entries)");
  expect(backlogText(of(212, 59_996, 212))).toBe("≈ 60,000 (212 entries)");
  expect(backlogText(of(12_345, 12_345, 12_000))).toBe("≈ 12,345");
  expect(backlogText(of(12_345, 12_400, 12_000))).toBe("≈ 12,345");
  expect(backlogText(of(1, 283, 1))).toBe("≈ 280 (1 entry)");
  expect(backlogText(of(222, 59_996, 212, 10))).toBe("≥ 59,000 (222 entries)");
  expect(backlogText(of(222, 420, 0, 10))).toBe("≥ 420 (222 entries)");
  expect(backlogText(of(212, 212, 0, 212))).toBe("212 entries");
  expect(backlogText(of(null, null))).toBe("—");
});

test("a number of entries is never called messages", () => {
  expect(backlogWords(of(212, 212, 0, 212))?.unit).toBe("entries");
  expect(backlogWords(of(1, 1, 0, 1))?.unit).toBe("entry");
  expect(backlogWords(of(212, 59_996, 212))?.unit).toBe("messages");
  expect(backlogWords(of(1, 1))?.unit).toBe("message");
  expect(backlogWords(of(null, null))).toBeNull();
});

test("an unknown age is not shown as none", () => {
  expect(oldestText(null, 9_000)).toBe("unknown");
  expect(oldestText(0, 9_000)).toBe("—");
  expect(oldestText(1_000, 126_000)).toBe("2 min 5 s");
});
