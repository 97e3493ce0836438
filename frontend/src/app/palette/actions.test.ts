import { describe, expect, test } from "vitest";
import { askedFor, hasWords, wordsOf } from "./actions";

const asked = (text: string) => {
  const found = askedFor(wordsOf(text));
  return found && { actions: found.actions.map(({ key }) => key), rest: found.rest };
};

describe("actions named by words", () => {
  test("an action and a topic, in any order", () => {
    expect(asked("skip all orders")).toEqual({ actions: ["skip-all"], rest: "orders" });
    expect(asked("orders reset")).toEqual({ actions: ["reset"], rest: "orders" });
    expect(asked("res tenant-a orders")).toEqual({ actions: ["reset"], rest: "tenant-a orders" });
    expect(asked("copy name")).toEqual({ actions: ["copy"], rest: "" });
  });

  test("fewer letters than the beginning of an action name none", () => {
    expect(asked("orders")).toBeNull();
    expect(asked("re")).toBeNull();
    expect(asked("")).toBeNull();
  });

  test("one word may name several actions", () => {
    expect(asked("skip")).toEqual({ actions: ["skip-all", "skip"], rest: "" });
  });
});

test("words match in any case and order", () => {
  expect(hasWords("Tenant-A/orders", wordsOf("ORD tenant"))).toBe(true);
  expect(hasWords("Tenant-A/orders", wordsOf("ord tenantb"))).toBe(false);
});
