// @vitest-environment jsdom
import { expect, test } from "vitest";
import { grantCommands } from "./grant-commands";

const role = "app";

test("a grant on a namespace or a topic has its commands", () => {
  const namespace = { tenant: "acme", namespace: "billing" };
  expect(grantCommands(namespace, { role, words: ["produce", "consume"] }).pulsarAdmin).toBe(
    "pulsar-admin namespaces grant-permission --role app --actions produce,consume acme/billing",
  );
  const topic = { topic: "persistent://acme/billing/orders" };
  expect(grantCommands(topic, { role, words: [] })).toEqual({
    curl: `curl -f -X DELETE ${location.origin}/admin/v2/persistent/acme/billing/orders/permissions/app`,
    pulsarctl: "pulsarctl topics revoke-permissions --role app persistent://acme/billing/orders",
    pulsarAdmin: "pulsar-admin topics revoke-permission --role app persistent://acme/billing/orders",
  });
});

test("lists that are set at once have no command for a single role", () => {
  expect(grantCommands({ tenant: "acme" }, { role, words: ["admin"] }).curl).toHaveProperty("why");
});
