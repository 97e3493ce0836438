import { describe, expect, test } from "vitest";
import { parseSearch, parseTopicName, stringifySearch } from "./url-state";

describe("search parameters", () => {
  test("text that looks like a number or a boolean stays text", () => {
    expect(parseSearch("?q=123&tenant=true")).toEqual({ q: "123", tenant: "true" });
  });

  test("unset and empty values leave no trace in the address", () => {
    expect(stringifySearch({ q: "", tenant: undefined, sort: null })).toBe("");
  });
});

describe("topic names", () => {
  test("a full name splits into its parts, slashes of the topic included", () => {
    expect(parseTopicName("non-persistent://t/n/a/b")).toEqual({
      domain: "non-persistent",
      tenant: "t",
      namespace: "n",
      topic: "a/b",
    });
  });

  test.each(["hello", "persistent://t/n", "http://t/n/x", "persistent://t//x"])(
    "%s is no full name",
    (name) => {
      expect(parseTopicName(name)).toBeNull();
    },
  );
});
