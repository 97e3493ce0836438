import { describe, expect, test } from "vitest";
import { parseSearch, stringifySearch } from "../../lib/url-state";
import { topicsSearch } from "./search";

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
