import { describe, expect, test } from "vitest";
import { parseNamespace, parseSearch, parseTopicName, partitionedOf, stringifySearch } from "./url-state";

describe("search parameters", () => {
  test("text that looks like a number or a boolean stays text", () => {
    expect(parseSearch("?q=123&tenant=true")).toEqual({ q: "123", tenant: "true" });
  });

  test("unset and empty values leave no trace in the address", () => {
    expect(stringifySearch({ q: "", tenant: undefined, sort: null })).toBe("");
  });
});

describe("topic names", () => {
  test.each([
    ["non-persistent://t/n/a", "n", "a"],
    ["non-persistent://t/c/n/a", "c/n", "a"],
    ["non-persistent://t/c/n/a/b", "c/n", "a/b"],
    ["non-persistent://t/n/a\nb", "n", "a\nb"],
  ])("%j splits into its parts as the server does it", (name, namespace, topic) => {
    expect(parseTopicName(name)).toEqual({ domain: "non-persistent", tenant: "t", namespace, topic });
  });

  test("only a suffix that the server writes makes a partition", () => {
    expect(partitionedOf("a-partition-10")).toBe("a");
    for (const name of ["a-partition-01", "a-partition-", "-partition-1", "a-partition-12345678901"])
      expect(partitionedOf(name)).toBeNull();
  });

  test("a legacy namespace keeps its cluster", () => {
    expect(parseNamespace("t/c/n")).toEqual({ tenant: "t", namespace: "c/n" });
    expect(parseNamespace("t/n")).toEqual({ tenant: "t", namespace: "n" });
  });

  test.each(["hello", "persistent://t/n", "http://t/n/x", "persistent://t//x", "persistent://t/n/a/"])(
    "%s is no full name",
    (name) => {
      expect(parseTopicName(name)).toBeNull();
    },
  );
});
