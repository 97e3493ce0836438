// @vitest-environment jsdom
import { expect, test } from "vitest";
import { lackOfPage } from "./lacking";

const lacks = {
  traces: "No spans",
  analyses: "No bookies",
  "broker-settings": "Not here",
  transactions: "By tools",
  functions: "By pulsar-admin",
  connections: "Not listed",
};

test.each([
  ["/c/us/t/acme/ns/orders/messages", undefined],
  ["/c/us/t/acme/ns/orders/traces", "No spans"],
  ["/c/us/settings", "Not here"],
  ["/c/us/transactions", "By tools"],
  ["/c/us/functions/new", "By pulsar-admin"],
  ["/c/us/clients", "Not listed"],
  ["/c/us/tenants/acme/transactions", undefined],
  ["/analyses", "No bookies"],
  ["/analyses/runs/1", "No bookies"],
  ["/c/us/t/acme/ns/messages/overview", undefined],
  ["/c/us/topics", undefined],
  ["/c/us/t/acme/ns/orders/schema", undefined],
])("%s lacks %s", (pathname, reason) => expect(lackOfPage(pathname, lacks)).toBe(reason));

test("a cluster of ours lacks nothing", () =>
  expect(lackOfPage("/c/us/t/acme/ns/orders/traces", {})).toBeUndefined());
