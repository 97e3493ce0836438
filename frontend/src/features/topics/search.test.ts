import { describe, expect, test } from "vitest";
import { parseSearch, stringifySearch } from "../../lib/url-state";
import { nextSort, sortOf, topicsSearch } from "./search";

describe("search parameters", () => {
  test("a view written to the address reads back the same", () => {
    const view = { q: "a b&c=ü/100%", tenant: "public", sort: "-msg_rate_in" };
    expect(topicsSearch.parse(parseSearch(stringifySearch(view)))).toMatchObject(view);
  });

  test("a broken or unknown value falls back instead of failing the page", () => {
    const view = topicsSearch.parse({
      sort: "-colour",
      domain: "imaginary",
      q: "x".repeat(2000),
      extra: "1",
    });
    expect(view.sort).toBeUndefined();
    expect(view.domain).toBeUndefined();
    expect(view.q).toBeUndefined();
    expect(view).not.toHaveProperty("extra");
  });
});

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
