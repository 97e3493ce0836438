import { describe, expect, test } from "vitest";
import { CHOICES, choiceText, DEFAULT_CHOICE, parseChoice, withSorted } from "./columns";

describe("chosen columns", () => {
  test("read back as they were written, in the list's order", () => {
    expect(parseChoice(choiceText(["producers", "tenant"]))).toEqual(["tenant", "producers"]);
    expect(parseChoice(choiceText([]))).toEqual([]);
    expect(parseChoice(choiceText([...CHOICES]))).toEqual([...CHOICES]);
  });

  test("a text without columns is no choice", () => {
    expect(parseChoice("")).toBeNull();
    expect(parseChoice(null)).toBeNull();
    expect(parseChoice("colour")).toBeNull();
    expect(parseChoice("colour,producers")).toEqual(["producers"]);
  });

  test("the sorted column is shown, chosen or not", () => {
    expect(withSorted(["producers"], "-tenant")).toEqual(["tenant", "producers"]);
    expect(withSorted(DEFAULT_CHOICE, "-backlog")).toEqual([...DEFAULT_CHOICE]);
  });
});
