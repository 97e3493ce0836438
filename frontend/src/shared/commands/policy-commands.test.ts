// @vitest-environment jsdom
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type PolicyCalls, policyCommands } from "./policy-commands";
import type { Commands } from "./shell";

interface Group {
  policy: string;
  level: "namespace" | "topic";
  calls: PolicyCalls;
  cases: (Commands & { value: unknown })[];
}

// tests/unit/admin_ui/policies/test_policy_rows.py checks that rows have these calls, and the requests of pulsar-admin's commands.
const GROUPS: Group[] = readFileSync("../tests/golden/policies/tool_calls.jsonl", "utf8")
  .trim()
  .split("\n")
  .map((text) => JSON.parse(text));
const PLACES = {
  namespace: { parent: "/admin/v2/namespaces/shop/orders", name: "shop/orders" },
  topic: { parent: "/admin/v2/persistent/shop/orders/t", name: "persistent://shop/orders/t" },
};

test.each(GROUPS)("$policy of a $level has its commands", ({ level, calls, cases }) => {
  const { parent, name } = PLACES[level];
  for (const { value, curl, pulsarctl, pulsarAdmin } of cases) {
    const made = policyCommands(parent, name, calls, value);
    const relative = typeof made.curl === "string" ? made.curl.replace(location.origin, "") : made.curl;
    expect({ ...made, curl: relative }).toEqual({ curl, pulsarctl, pulsarAdmin });
  }
});

const rest = { path: "p", method: "POST" as const, value_query: "", removal: null };
const option = { flag: "--n", field: "", suffix: "s", divisor: 1000, cases: null };
const seconds = { tool: "pulsar-admin" as const, set: ["set"], remove: [], options: [option] };

test("a large number received as text is divided exactly", () => {
  const made = policyCommands("/a", "n", { rest, commands: [seconds] }, "9007199254740993000");
  expect(made.pulsarAdmin).toBe("pulsar-admin set --n 9007199254740993s n");
});

test("a change without a call has a reason", () => {
  const made = policyCommands("/a", "n", { rest, commands: [seconds] }, null);
  for (const line of Object.values(made)) expect(line).toHaveProperty("why");
});
