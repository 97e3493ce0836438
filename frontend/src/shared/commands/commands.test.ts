// @vitest-environment jsdom
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ACCESS_COMMANDS } from "./access-commands";
import { ALERT_COMMANDS } from "./alert-commands";
import { COMMANDS, QUESTIONS } from "./commands";
import { COPY_COMMANDS } from "./copy-commands";
import { FUNCTION_COMMANDS } from "./function-commands";
import { OF_A_SESSION, PEOPLE_COMMANDS } from "./people-commands";
import type { PolicyCalls } from "./policy-commands";
import { type Commands, type Line, line } from "./shell";
import { SUBSCRIPTION_COMMANDS } from "./subscription-commands";
import segments from "./subscription-segments.json";

const document = JSON.parse(readFileSync("openapi.json", "utf8"));
const methods = Object.values(document.paths) as Record<string, { operationId: string }>[];
const changing = methods
  .flatMap((path) => Object.entries(path))
  .filter(([method]) => method !== "get")
  .map(([, { operationId }]) => operationId);

const at = { domain: "persistent", tenant: "shop", namespace: "orders", topic: "100% it's" };
const tenant = { admin_roles: ["ops", "dev"], allowed_clusters: ["here"] };
const alerts = { cluster: "here", tenant: "shop" };
const bundle = { tenant: "shop", namespace: "orders", bundle: "0x00000000_0x40000000" };
const calls: PolicyCalls = {
  rest: { path: "messageTTL", method: "POST", value_query: "", removal: null },
  commands: [],
};
const fn = { component: "function" as const, tenant: "shop", namespace: "orders", name: "it's" };
const TOOLS = ["curl", "pulsarAdmin", "pulsarctl"];
const message = { value: "it's, two", key: "k", properties: { a: "1" } };
const ARGUMENTS: Record<string, unknown[]> = {
  createTenant: [{ ...tenant, name: "shop" }],
  updateTenant: [{ ...tenant, tenant: "shop" }],
  deleteTenant: [{ tenant: "shop" }],
  createNamespace: [{ tenant: "shop", name: "orders", bundles: 4 }],
  deleteNamespace: [{ tenant: "shop", namespace: "orders" }],
  createTopic: [at, { partitions: 3, properties: {} }],
  deleteTopic: [at, { partitions: 3 }],
  addPartitions: [at, { partitions: 8 }],
  offloadTopic: [at, { keep_bytes: 1000, before: 42 }],
  setTopicProperties: [at, { value: { a: "1" }, expected: { b: "2" } }],
  setNamespacePolicy: [
    { tenant: "shop", namespace: "orders" },
    { policy: calls, value: 600 },
  ],
  setNamespaceProperties: [
    { tenant: "shop", namespace: "orders" },
    { value: { a: "1" }, expected: { b: "2" } },
  ],
  setTopicPolicy: [at, { policy: calls, value: 600 }],
  unloadBundle: [bundle],
  splitBundle: [bundle, { edges: [0x20000000], middle: true, unload: true }],
  transferBundle: [bundle, { destination: "b:8080" }],
  unloadBroker: [{ cluster: "here", broker: "b:8080" }],
  changeSetting: [{ name: "maxTopicsPerNamespace" }, { value: "900" }],
  changeRack: [{ bookie: "b:3181" }, { rack: { rack: "/r1", group: "default", hostname: "" } }],
  runFunction: [fn, { verb: "stop", instance: 1 }],
  deleteFunction: [fn],
  deployFunction: [fn, { isNew: true, file: "it's.py" }],
  skip: [{ ...at, subscription: "s" }, { count: 5 }],
  reset: [{ ...at, subscription: "s" }, { timestamp: 0 }],
  deleteSubscription: [{ ...at, subscription: "s" }, { force: true }],
  createPerson: [{ name: "ada", roles: [] }],
  changePerson: ["ada", { roles: [] }],
  deletePerson: ["ada"],
  resetPassword: ["ada"],
  endSession: ["ada", "id"],
  endSessions: ["ada"],
  changeGrant: [
    { tenant: "shop", namespace: "orders" },
    { role: "app", words: ["produce", "consume"] },
  ],
  issueToken: [{ name: "job", role: "app", level: "full", expires_in_s: 3600 }],
  revokeToken: ["7"],
  setPayloadRules: [{ rules: [], expected: [] }],
  createAlertRule: [alerts, { name: "r" }],
  changeAlertRule: [alerts, 7, { name: "r" }],
  deleteAlertRule: [alerts, 7],
  createAlertChannel: [alerts, { name: "c", secret_url: "https://x.example/CANARY" }],
  changeAlertChannel: [alerts, 7, { name: "c" }],
  deleteAlertChannel: [alerts, 7],
  testAlertChannel: [alerts, 7],
  acknowledgeAlert: [alerts, 7, { note: "" }],
  silenceAlerts: [alerts, { reason: "r", until: 1 }],
  endAlertSilence: [alerts, 7],
  publishMessages: [at, { message, schema: null, brokerUrl: "pulsar://b:6650" }],
  setAgeTarget: [
    { ...at, subscription: "s" },
    { seconds: 300, properties: { owner: "me" } },
  ],
  copyMessages: [
    { ...at, cluster: "here" },
    { target: null, rate: 10 },
  ],
  stopCopy: [{ cluster: "here", copy_id: "7" }],
  resumeCopy: [{ cluster: "here", copy_id: "7" }],
  undoCopy: [{ cluster: "here", copy_id: "7" }],
  registerSchema: [at, { type: "AVRO", definition: "{}" }],
};

test("each changing operation has three lines, or a reason why a tool has none", () => {
  const all = {
    ...COMMANDS,
    ...PEOPLE_COMMANDS,
    ...ACCESS_COMMANDS,
    ...ALERT_COMMANDS,
    ...SUBSCRIPTION_COMMANDS,
    ...COPY_COMMANDS,
    ...FUNCTION_COMMANDS,
  };
  const known = [...Object.keys(all), ...QUESTIONS, ...OF_A_SESSION];
  expect([...known].sort()).toEqual([...changing].sort());
  for (const [operation, make] of Object.entries(all)) {
    const given = ARGUMENTS[operation] ?? [{ ...at, subscription: "s" }];
    const made = (make as unknown as (...args: unknown[]) => Commands)(...given);
    const tools = made.client ? ["client", "curl", "pulsarAdmin", "pulsarctl", "python"] : TOOLS;
    expect(Object.keys(made).sort(), operation).toEqual(tools);
    for (const [tool, line] of Object.entries(made) as [string, Line][]) {
      if (typeof line === "string")
        expect(line, `${operation} ${tool}`).toMatch(
          /^(curl -f -X|pulsarctl|pulsar-admin|pulsar-client|python3 -c) /,
        );
      else expect(line.why, `${operation} ${tool}`).toMatch(/\.$/);
    }
  }
});

test("a command about a channel has no URL of it", () => {
  const body = { name: "c", kind: "webhook" as const, secret_url: "https://x.example/CANARY" };
  const made = ALERT_COMMANDS.createAlertChannel(alerts, { ...body, recipients: [] });
  expect(made.curl).not.toContain("CANARY");
  expect(made.curl).toContain("/api/v1/clusters/here/alerts/channels?tenant=shop");
});

test("hostile names are encoded once in a path and quoted for the shell", () => {
  const made = COMMANDS.deleteTopic(at, { partitions: 0 });
  expect(made.curl).toContain(
    `'${location.origin}/admin/v2/persistent/shop/orders/100%25%20it'"'"'s?force=true'`,
  );
  expect(made.pulsarAdmin).toBe(
    `pulsar-admin topics delete --force 'persistent://shop/orders/100% it'"'"'s'`,
  );
  expect(made.pulsarctl).toContain("--non-partitioned");
});

// tests/unit/gateway/http/test_paths.py decodes these segments with the server's own code.
test.each(segments)("the subscription $name is $segment in a path", ({ name, segment }) => {
  const made = COMMANDS.skipAll({ ...at, topic: "t", subscription: name });
  const path = `${location.origin}/admin/v2/persistent/shop/orders/t/subscription/${segment}/skip_all`;
  expect(made.curl).toBe(line("curl", "-f", "-X", "POST", path));
});

test("calls for a legacy name use its own tree with the cluster as a segment", () => {
  const legacy = { ...at, namespace: "here/orders", topic: "t" };
  expect(COMMANDS.unloadTopic(legacy).curl).toContain("/admin/persistent/shop/here/orders/t/unload");
  expect(COMMANDS.deleteSchemas(legacy).curl).toContain("/admin/schemas/shop/here/orders/t/schema");
  expect(COMMANDS.deleteNamespace(legacy).curl).toContain("/admin/namespaces/shop/here/orders");
  expect(COMMANDS.unloadTopic(legacy).pulsarAdmin).toContain("persistent://shop/here/orders/t");
});

test("changed properties are set and removed ones removed", () => {
  const made = COMMANDS.setTopicProperties(
    { ...at, topic: "t" },
    { value: { a: "1", c: "3" }, expected: { a: "1", b: "2" } },
  );
  expect(made.curl).toContain(`-X PUT -H 'Content-Type: application/json' -d '{"c":"3"}'`);
  expect(made.curl).toContain("properties?key=b");
  expect(made.pulsarAdmin).toBe(
    "pulsar-admin topics update-properties --property c=3 persistent://shop/orders/t && \\\npulsar-admin topics remove-properties --key b persistent://shop/orders/t",
  );
});

test("a split command cuts at the previewed hashes, or has a reason why the tool cannot", () => {
  const made = COMMANDS.splitBundle(bundle, { edges: [536870912], middle: false, unload: false });
  expect(made.curl).toContain("-d '[536870912]'");
  expect(made.curl).toContain("split?splitAlgorithmName=specified_positions_divide&unload=false");
  expect(made.pulsarAdmin).toContain("--split-boundaries 536870912 shop/orders");
  expect(made.pulsarctl).toEqual({ why: "pulsarctl splits a bundle in the middle only." });
});

test("bundles of a broker are listed and unloaded one by one", () => {
  const made = COMMANDS.unloadBroker({ cluster: "my cluster", broker: "b:8080" });
  const grep = `grep -oE '[^" ,{]+/0x[0-9a-f]{8}_0x[0-9a-f]{8}'`;
  expect(made.curl).toBe(
    `curl -f -X GET ${location.origin}/admin/v2/brokers/my%20cluster/b%3A8080/ownedNamespaces | \\\n${grep} | \\\n` +
      `while read -r bundle; do curl -f -X PUT "${location.origin}/admin/v2/namespaces/$bundle/unload"; done`,
  );
  expect(made.pulsarAdmin).toContain("pulsar-admin brokers namespaces 'my cluster' --url b:8080");
  expect(made.pulsarctl).toContain(
    `do pulsarctl namespaces unload --bundle "\${bundle##*/}" "\${bundle%/*}"; done`,
  );
});

test("a setting is set and removed for all brokers", () => {
  const at = { name: "subscriptionTypesEnabled" };
  const made = COMMANDS.changeSetting(at, { value: "Shared,Exclusive" });
  expect(made.curl).toMatch(/-X POST .*\/configuration\/subscriptionTypesEnabled\/Shared%2CExclusive$/);
  expect(made.pulsarAdmin).toBe(
    "pulsar-admin brokers update-dynamic-config --config subscriptionTypesEnabled --value Shared,Exclusive",
  );
  const removed = COMMANDS.changeSetting(at, { value: null });
  expect(removed.curl).toMatch(/-X DELETE .*\/configuration\/subscriptionTypesEnabled$/);
  expect(removed.pulsarctl).toBe("pulsarctl brokers delete-dynamic-config --config subscriptionTypesEnabled");
});

test("a rack is set with its hostname, and removed", () => {
  const rack = { rack: "/r 1", group: "default", hostname: "h" };
  const made = COMMANDS.changeRack({ bookie: "b:3181" }, { rack });
  expect(made.curl).toContain(`-d '{"rack":"/r 1","hostname":"h"}'`);
  expect(made.curl).toMatch(/racks-info\/b%3A3181\?group=default'$/);
  expect(made.pulsarAdmin).toBe(
    "pulsar-admin bookies set-bookie-rack -b b:3181 -r '/r 1' -g default --hostname h",
  );
  expect(COMMANDS.changeRack({ bookie: "b:3181" }, { rack: null }).pulsarAdmin).toBe(
    "pulsar-admin bookies delete-bookie-rack -b b:3181",
  );
});

test("a grant is set with its words, and removed without any", () => {
  const place = { tenant: "shop", namespace: "orders" };
  const made = ACCESS_COMMANDS.changeGrant(place, { role: "app 1", words: ["produce", "consume"] });
  expect(made.curl).toBe(
    `curl -f -X POST -H 'Content-Type: application/json' -d '["produce","consume"]' ${location.origin}/admin/v2/namespaces/shop/orders/permissions/app%201`,
  );
  expect(made.pulsarAdmin).toBe(
    "pulsar-admin namespaces grant-permission --role 'app 1' --actions produce,consume shop/orders",
  );
  const topic = { ...at, topic: "t" };
  const removed = ACCESS_COMMANDS.changeGrant({ ...place, topic }, { role: "app", words: [] });
  expect(removed.curl).toBe(
    `curl -f -X DELETE ${location.origin}/admin/v2/persistent/shop/orders/t/permissions/app`,
  );
  expect(removed.pulsarctl).toBe("pulsarctl topics revoke-permissions --role app persistent://shop/orders/t");
  expect(ACCESS_COMMANDS.changeGrant({ tenant: "shop" }, { role: "app", words: [] }).curl).toHaveProperty(
    "why",
  );
});

test("a message is published by the tools that can", () => {
  const made = COMMANDS.publishMessages(
    { ...at, topic: "t" },
    { message, schema: null, brokerUrl: "pulsar://b:6650" },
  );
  expect(made.client).toBe(
    `pulsar-client --url pulsar://b:6650 produce -s '(?!)' -m 'it'"'"'s, two' -k k -p a=1 persistent://shop/orders/t`,
  );
  expect(made.python).toContain(`.send("it'"'"'s, two".encode(), partition_key="k", properties={"a":"1"})`);
  expect(made.curl).toContain("/topics/persistent/shop/orders/t");
  const encoded = COMMANDS.publishMessages(at, { message, schema: 3, brokerUrl: "" });
  expect(encoded.curl).toContain('"schemaVersion":3');
  expect([encoded.client, encoded.python].every((made) => typeof made === "object")).toBe(true);
});
