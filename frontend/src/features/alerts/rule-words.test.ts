import { expect, test } from "vitest";
import { historyText, wordsOf } from "./rule-words";

const preview = { now: 0, examples: [], problem: "", since: 0, note: "", words: "" };

test("a preview says how often and over how much history", () => {
  const answer = { ...preview, times: 3, recorded_s: 3600, subjects: 5, of: 5 };
  expect(historyText(answer)).toBe("It would have fired 3 times in the recorded 1 h.");
  expect(historyText({ ...answer, times: 1, of: 900 })).toBe(
    "It would have fired once in the recorded 1 h, of 5 of 900 objects.",
  );
});

test("without history there is no number", () => {
  const answer = { ...preview, times: null, recorded_s: 0, subjects: 0, of: 1 };
  expect(historyText(answer)).toBe("The recorded history cannot tell how often it would have fired.");
});

test("words are separated by commas", () => {
  expect(wordsOf(" a, b,,c ")).toEqual(["a", "b", "c"]);
});
