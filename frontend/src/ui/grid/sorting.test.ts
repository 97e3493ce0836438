import { describe, expect, test } from "vitest";
import { nextSort, sortOf } from "./sorting";

describe("sorting", () => {
  test("a new column starts with its usual order, and activating it again reverses it", () => {
    expect(nextSort("topic", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "backlog", true)).toBe("backlog");
    expect(nextSort("backlog", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "topic", false)).toBe("topic");
  });

  test("only the sorted column is announced as sorted", () => {
    expect(sortOf("-backlog", "backlog")).toBe("descending");
    expect(sortOf("backlog", "backlog")).toBe("ascending");
    expect(sortOf("-backlog", "topic")).toBe("none");
  });
});
