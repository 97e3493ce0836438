import { expect, test } from "vitest";
import { changesOf, propertiesOf, textOf } from "./property-lines";

test("properties are converted to ordered lines and back without loss", () => {
  const given = { team: "ops", "a.b": "x=y", empty: "" };
  expect(textOf(given)).toBe("a.b=x=y\nempty=\nteam=ops");
  expect(propertiesOf(textOf(given))).toEqual({ value: given, problem: null });
});

test("an invalid line is named, and a name may appear once", () => {
  expect(propertiesOf("a=1\nnothing").problem).toBe("Not of the form name=value: nothing");
  expect(propertiesOf("=1").problem).toContain("=1");
  expect(propertiesOf("a=1\na=2").problem).toBe("Given twice: a");
});

test("changes are listed one by one", () => {
  expect(changesOf({ a: "1", b: "2", c: "3" }, { a: "1", b: "4", d: "" })).toEqual([
    'b changes from "2" to "4"',
    "c is removed",
    'd is set to ""',
  ]);
});
