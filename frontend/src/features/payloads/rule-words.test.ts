import { expect, test } from "vitest";
import type { PayloadRule } from "./queries";
import { decidedBy, isPattern, NEW_RULE, rulesProblem, ruleText, trimmed } from "./rule-words";

const rule = (namespace: string, more: Partial<PayloadRule> = {}): PayloadRule => ({
  ...NEW_RULE,
  namespace,
  ...more,
});

test("a rule is a sentence", () => {
  expect(ruleText(rule("acme/billing", { role: "app", level: "read" }))).toBe(
    "Payloads of acme/billing are hidden from the role app at the level read.",
  );
  expect(ruleText(rule("acme/*", { shown: true, level: "operate" }))).toBe(
    "Payloads of all namespaces of acme are shown to everybody at the level operate.",
  );
  expect(ruleText(rule("*"))).toBe("Payloads of all namespaces are hidden from everybody.");
});

test("a rule that another one always decides before is found", () => {
  const rules = [
    rule("acme/*", { level: "read" }),
    rule("acme/billing", { level: "read", role: "app" }),
    rule("acme/billing"),
    rule("acmes/billing", { level: "read" }),
    rule("acme/*", { level: "read", shown: true }),
    rule("*"),
    rule("other/x"),
  ];
  expect(rules.map((_, index) => decidedBy(rules, index))).toEqual([null, 1, null, null, 1, null, 6]);
});

test("each rule needs the pattern of a namespace", () => {
  for (const pattern of ["*", "acme/*", "acme/billing", "acme/us-west/billing"])
    expect(isPattern(pattern)).toBe(true);
  for (const pattern of ["", "acme", "acme/", "*/x", "acme/b*", "a b/c", "a/b/c/d"])
    expect(isPattern(pattern)).toBe(false);
  expect(rulesProblem([rule("*"), rule("acme")])).toContain("Rule 2 needs a namespace");
  expect(rulesProblem([rule(" * ")])).toBeNull();
  expect(trimmed([rule(" * ", { role: " app " })])).toEqual([rule("*", { role: "app" })]);
});
