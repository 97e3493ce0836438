// @vitest-environment jsdom
import { expect, test } from "vitest";
import { policyCommands } from "./policy-commands";

const REST = "/admin/v2/namespaces/shop/orders";
const TOPIC = "/admin/v2/persistent/shop/orders/t";

test("a value becomes the options of each tool", () => {
  const value = { retentionTimeInMinutes: 60, retentionSizeInMB: -1 };
  const made = policyCommands(REST, "shop/orders", "namespace", "retention", value);
  expect(made.curl).toContain(`-d '{"retentionTimeInMinutes":60,"retentionSizeInMB":-1}'`);
  expect(made.curl).toContain(`${REST}/retention`);
  expect(made.pulsarAdmin).toBe("pulsar-admin namespaces set-retention --time 60m --size -1 shop/orders");
  expect(made.pulsarctl).toBe("pulsarctl namespaces set-retention --time 60m --size -1 shop/orders");
});

test("a topic's policies have words and paths of their own", () => {
  const made = policyCommands(TOPIC, "persistent://shop/orders/t", "topic", "maxProducersPerTopic", 3);
  expect(made.curl).toMatch(/orders\/t\/maxProducers$/);
  expect(made.pulsarAdmin).toBe(
    "pulsar-admin topicPolicies set-max-producers --max-producers 3 persistent://shop/orders/t",
  );
});

test("a quota names its type, also where it is removed", () => {
  const policy = "backlogQuota.message_age";
  const value = { limitTime: 60, policy: "producer_exception" };
  expect(policyCommands(REST, "shop/orders", "namespace", policy, value).pulsarAdmin).toBe(
    "pulsar-admin namespaces set-backlog-quota --limitTime 60 --policy producer_exception --type message_age shop/orders",
  );
  const gone = policyCommands(REST, "shop/orders", "namespace", policy, null);
  expect(gone.curl).toMatch(/-X DELETE \S+backlogQuota\?backlogQuotaType=message_age/);
  expect(gone.pulsarAdmin).toBe(
    "pulsar-admin namespaces remove-backlog-quota --type message_age shop/orders",
  );
});

test("what a tool cannot do is said", () => {
  const made = policyCommands(REST, "shop/orders", "namespace", "schemaValidationEnforced", null);
  for (const one of Object.values(made)) expect(one).toHaveProperty("why");
});
