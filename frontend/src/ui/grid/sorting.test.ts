import { describe, expect, test } from "vitest";
import { nextSort, sortOf } from "./sorting";

describe("sorting", () => {
  test("a new column starts the way people look at it, and activating it again turns it round", () => {
    expect(nextSort("topic", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "backlog", true)).toBe("backlog");
    expect(nextSort("backlog", "backlog", true)).toBe("-backlog");
    expect(nextSort("-backlog", "topic", false)).toBe("topic");
  });

  test("only the sorted column says so", () => {
    expect(sortOf("-backlog", "backlog")).toBe("descending");
    expect(sortOf("backlog", "backlog")).toBe("ascending");
    expect(sortOf("-backlog", "topic")).toBe("none");
  });
});
