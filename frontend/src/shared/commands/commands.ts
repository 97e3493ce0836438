// The console's changes as command lines of the tools that automate Pulsar. All are made here, from the operation of the
// OpenAPI document and its arguments. A change that no tool supports has the reason instead.

import type { operations } from "../../api/schema";
import { serverNow } from "../../lib/clock";
import { type PolicyCalls, policyCommands } from "./policy-commands";
import { publishCommands } from "./publish-commands";
import { type Commands, curl, line, path } from "./shell";

export type { Commands } from "./shell";

export interface TopicPath {
  domain: string;
  tenant: string;
  namespace: string;
  topic: string;
}

interface TenantLists {
  admin_roles: string[];
  allowed_clusters: string[];
}

const ONLY_HERE = "Only the console has it: Pulsar has no equivalent.";

export const nameOf = ({ domain, tenant, namespace, topic }: TopicPath) =>
  `${domain}://${tenant}/${namespace}/${topic}`;

const TENANTS = "/admin/v2/tenants";
const NAMESPACES = "/admin/v2/namespaces";

/** Legacy namespaces, "cluster/namespace", have a tree of their own, in which the cluster is a segment. */
const tree = (namespace: string) => (namespace.includes("/") ? "/admin" : "/admin/v2");
const restOf = ({ domain, tenant, namespace, topic }: TopicPath) =>
  `${tree(namespace)}/${path(domain, tenant, ...namespace.split("/"), topic)}`;
/** The topic's path in Pulsar's REST interface. */
export const adminPath = restOf;
const namespaceOf = (at: { tenant: string; namespace: string }, ...below: string[]) =>
  `${tree(at.namespace)}/namespaces/${path(at.tenant, ...at.namespace.split("/"), ...below)}`;

const flags = (flag: string, values: string[]) => values.flatMap((value) => [flag, value]);
export const pairs = (flag: string, values: Record<string, string>) =>
  flags(
    flag,
    Object.entries(values).map(([key, value]) => `${key}=${value}`),
  );

function tenant(verb: "create" | "update", name: string, given: TenantLists): Commands {
  const body = { adminRoles: given.admin_roles, allowedClusters: given.allowed_clusters };
  const words = [
    ...(given.admin_roles.length > 0 ? ["--admin-roles", given.admin_roles.join(",")] : []),
    ...["--allowed-clusters", given.allowed_clusters.join(",")],
  ];
  const keepsRoles = verb === "update" && given.admin_roles.length === 0;
  return {
    curl: curl(verb === "create" ? "PUT" : "POST", `${TENANTS}/${path(name)}`, body),
    pulsarctl: keepsRoles
      ? { why: "pulsarctl leaves the admin roles as they are when none is given." }
      : line("pulsarctl", "tenants", verb, ...words, name),
    pulsarAdmin: line("pulsar-admin", "tenants", verb, ...words, name),
  };
}

function topicCreation(
  at: TopicPath,
  { partitions, properties }: { partitions: number; properties: Record<string, string> },
): Commands {
  const has = Object.keys(properties).length > 0;
  const name = nameOf(at);
  return {
    curl:
      partitions === 0
        ? curl("PUT", restOf(at), has ? properties : undefined)
        : curl("PUT", `${restOf(at)}/partitions`, partitions) +
          (has ? ` && \\\n${curl("PUT", `${restOf(at)}/properties`, properties)}` : ""),
    pulsarctl: has
      ? { why: "pulsarctl cannot give a topic properties." }
      : line("pulsarctl", "topics", "create", name, String(partitions)),
    pulsarAdmin:
      partitions === 0
        ? line("pulsar-admin", "topics", "create", ...pairs("--metadata", properties), name)
        : line(
            ...["pulsar-admin", "topics", "create-partitioned-topic", "--partitions", String(partitions)],
            ...pairs("--metadata", properties),
            name,
          ),
  };
}

/** `partitions`: 0 of a plain topic. The tools change the state of that moment, whatever a preview showed. */
function topicDeletion(at: TopicPath, { partitions }: { partitions: number }): Commands {
  const name = nameOf(at);
  const rest = partitions > 0 ? `${restOf(at)}/partitions` : restOf(at);
  return {
    curl: curl("DELETE", `${rest}?force=true`),
    pulsarctl: line(
      "pulsarctl",
      "topics",
      "delete",
      "--force",
      partitions === 0 && "--non-partitioned",
      name,
    ),
    pulsarAdmin: line(
      ...["pulsar-admin", "topics", partitions > 0 ? "delete-partitioned-topic" : "delete", "--force", name],
    ),
  };
}

function properties(
  at: TopicPath,
  { value, expected }: { value: Record<string, string>; expected: Record<string, string> },
): Commands {
  const set = Object.fromEntries(Object.entries(value).filter(([key, text]) => expected[key] !== text));
  const gone = Object.keys(expected).filter((key) => !(key in value));
  const sets = Object.keys(set).length > 0;
  const rest = `${restOf(at)}/properties`;
  return {
    curl: [
      ...(sets ? [curl("PUT", rest, set)] : []),
      ...gone.map((key) => curl("DELETE", `${rest}?key=${encodeURIComponent(key)}`)),
    ].join(" && \\\n"),
    pulsarctl: { why: "pulsarctl does not change properties of topics." },
    pulsarAdmin: [
      ...(sets
        ? [line("pulsar-admin", "topics", "update-properties", ...pairs("--property", set), nameOf(at))]
        : []),
      ...gone.map((key) => line("pulsar-admin", "topics", "remove-properties", "--key", key, nameOf(at))),
    ].join(" && \\\n"),
  };
}

interface BundlePath {
  tenant: string;
  namespace: string;
  bundle: string;
}

/** `edges`: hashes at which it is cut; `middle`: the default place of the tools. */
function bundleSplit(
  at: BundlePath,
  { edges, middle, unload }: { edges: number[]; middle: boolean; unload: boolean },
): Commands {
  const where = "specified_positions_divide";
  const query = `splitAlgorithmName=${where}&unload=${unload}`;
  const words = ["namespaces", "split-bundle", "--bundle", at.bundle, unload && "--unload"];
  const name = `${at.tenant}/${at.namespace}`;
  return {
    curl: curl("PUT", `${namespaceOf(at, at.bundle)}/split?${query}`, edges),
    pulsarctl: middle
      ? line("pulsarctl", ...words, name)
      : { why: "pulsarctl splits a bundle in the middle only." },
    pulsarAdmin: line(
      ...["pulsar-admin", ...words, "--split-algorithm-name", where],
      ...flags("--split-boundaries", edges.map(String)),
      name,
    ),
  };
}

/**
 * Unloads each bundle that the broker owns at that time, one after the other: no tool has one call for them. The tools
 * list a bundle, in all their formats, as tenant/namespace/range.
 */
function brokerUnload({ cluster, broker }: { cluster: string; broker: string }): Commands {
  const each = (list: string, unload: string) =>
    `${list} | \\\ngrep -oE '[^" ,{]+/0x[0-9a-f]{8}_0x[0-9a-f]{8}' | \\\n` +
    `while read -r bundle; do ${unload}; done`;
  const parted = `namespaces unload --bundle "\${bundle##*/}" "\${bundle%/*}"`;
  return {
    curl: each(
      curl("GET", `/admin/v2/brokers/${path(cluster, broker)}/ownedNamespaces`),
      `curl -f -X PUT "${location.origin}${NAMESPACES}/$bundle/unload"`,
    ),
    pulsarctl: each(
      line("pulsarctl", "brokers", "namespaces", cluster, "--url", broker),
      `pulsarctl ${parted}`,
    ),
    pulsarAdmin: each(
      line("pulsar-admin", "brokers", "namespaces", cluster, "--url", broker),
      `pulsar-admin ${parted}`,
    ),
  };
}

/** pulsar-admin accepts all new values in one option, separated by commas: not those that contain a comma. */
function namespaceProperties(
  at: { tenant: string; namespace: string },
  { value, expected }: { value: Record<string, string>; expected: Record<string, string> },
): Commands {
  const set = Object.entries(value).filter(([key, text]) => expected[key] !== text);
  const gone = Object.keys(expected).filter((key) => !(key in value));
  const name = `${at.tenant}/${at.namespace}`;
  const rest = namespaceOf(at);
  const splits = set.some(([key, text]) => /[,=]/.test(key) || text.includes(","));
  const given = set.map(([key, text]) => `${key}=${text}`).join(",");
  return {
    curl: [
      ...(set.length > 0 ? [curl("PUT", `${rest}/properties`, Object.fromEntries(set))] : []),
      ...gone.map((key) => curl("DELETE", `${rest}/property/${path(key)}`)),
    ].join(" && \\\n"),
    pulsarctl: { why: "pulsarctl does not change properties of namespaces." },
    pulsarAdmin: splits
      ? { why: "pulsar-admin accepts no property that contains a comma." }
      : [
          ...(set.length > 0
            ? [line("pulsar-admin", "namespaces", "set-properties", "--properties", given, name)]
            : []),
          ...gone.map((key) => line("pulsar-admin", "namespaces", "remove-property", "--key", key, name)),
        ].join(" && \\\n"),
  };
}

/** `value` null removes the stored value. */
function settingChange({ name }: { name: string }, { value }: { value: string | null }): Commands {
  const words = ["brokers", value === null ? "delete-dynamic-config" : "update-dynamic-config"];
  const given = ["--config", name, ...(value === null ? [] : ["--value", value])];
  const rest = "/admin/v2/brokers/configuration";
  return {
    curl:
      value === null ? curl("DELETE", `${rest}/${path(name)}`) : curl("POST", `${rest}/${path(name, value)}`),
    pulsarctl: line("pulsarctl", ...words, ...given),
    pulsarAdmin: line("pulsar-admin", ...words, ...given),
  };
}

interface Rack {
  rack: string;
  group: string;
  /** Empty: the bookie has no hostname. */
  hostname: string;
}

/** `rack` null: removes the setting. */
function rackChange({ bookie }: { bookie: string }, { rack }: { rack: Rack | null }): Commands {
  const rest = `/admin/v2/bookies/racks-info/${path(bookie)}`;
  const host = rack?.hostname ? { hostname: rack.hostname } : {};
  return {
    curl: rack
      ? curl("POST", `${rest}?group=${encodeURIComponent(rack.group)}`, { rack: rack.rack, ...host })
      : curl("DELETE", rest),
    pulsarctl: { why: "pulsarctl has no command for racks of bookies." },
    pulsarAdmin: rack
      ? line(
          ...["pulsar-admin", "bookies", "set-bookie-rack", "-b", bookie, "-r", rack.rack, "-g", rack.group],
          ...(rack.hostname ? ["--hostname", rack.hostname] : []),
        )
      : line("pulsar-admin", "bookies", "delete-bookie-rack", "-b", bookie),
  };
}

/**
 * A subscription's name as a segment of Pulsar's REST paths, which is decoded twice, each time like a form: encoded once,
 * `a+b` would be the subscription `a b`.
 */
export const subscriptionSegment = (name: string): string => encodeURIComponent(encodeURIComponent(name));

export type OfSubscription = TopicPath & { subscription: string };

/** The subscription's path in Pulsar's REST interface. */
export const subscriptionPath = (at: OfSubscription): string =>
  `${restOf(at)}/subscription/${subscriptionSegment(at.subscription)}`;

function cursorChange(at: OfSubscription, verb: string, tool: string[], admin: string[]): Commands {
  return {
    curl: curl("POST", `${subscriptionPath(at)}/${verb}`),
    pulsarctl: line("pulsarctl", "subscriptions", ...tool, nameOf(at), at.subscription),
    pulsarAdmin: line("pulsar-admin", "topics", ...admin, "--subscription", at.subscription, nameOf(at)),
  };
}

/** The tools accept a span before now: the reset is by age in seconds, rounded up so that nothing is lost. */
function resetTo(at: OfSubscription, { timestamp }: { timestamp: number }): Commands {
  const age = `${Math.max(0, Math.ceil((serverNow() - timestamp) / 1000))}s`;
  return cursorChange(
    at,
    `resetcursor/${timestamp}`,
    ["seek", "--time", age],
    ["reset-cursor", "--time", age],
  );
}

const onlyHere = (): Commands => ({
  curl: { why: ONLY_HERE },
  pulsarctl: { why: ONLY_HERE },
  pulsarAdmin: { why: ONLY_HERE },
});

interface Candidate {
  type: string;
  definition: string;
  properties?: Record<string, string>;
}

const schemaOf = ({ tenant, namespace, topic }: TopicPath) =>
  `${tree(namespace)}/schemas/${path(tenant, ...namespace.split("/"), topic)}`;

/** Command lines by operation of the OpenAPI document: every operation that changes something. */
export const COMMANDS = {
  createTenant: (given: TenantLists & { name: string }) => tenant("create", given.name, given),
  updateTenant: (given: TenantLists & { tenant: string }) => tenant("update", given.tenant, given),
  deleteTenant: ({ tenant: name }: { tenant: string }): Commands => ({
    curl: curl("DELETE", `${TENANTS}/${path(name)}`),
    pulsarctl: line("pulsarctl", "tenants", "delete", name),
    pulsarAdmin: line("pulsar-admin", "tenants", "delete", name),
  }),
  createNamespace: (given: { tenant: string; name: string; bundles: number }): Commands => {
    const full = `${given.tenant}/${given.name}`;
    const words = ["namespaces", "create", "--bundles", String(given.bundles), full];
    const body = { bundles: { numBundles: given.bundles } };
    return {
      curl: curl("PUT", namespaceOf({ tenant: given.tenant, namespace: given.name }), body),
      pulsarctl: line("pulsarctl", ...words),
      pulsarAdmin: line("pulsar-admin", ...words),
    };
  },
  deleteNamespace: (at: { tenant: string; namespace: string }): Commands => ({
    curl: curl("DELETE", namespaceOf(at)),
    pulsarctl: line("pulsarctl", "namespaces", "delete", `${at.tenant}/${at.namespace}`),
    pulsarAdmin: line("pulsar-admin", "namespaces", "delete", `${at.tenant}/${at.namespace}`),
  }),
  /** `value` null removes it. */
  setNamespacePolicy: (
    at: { tenant: string; namespace: string },
    { policy, value }: { policy: PolicyCalls; value: unknown },
  ) => policyCommands(namespaceOf(at), `${at.tenant}/${at.namespace}`, policy, value),
  setNamespaceProperties: namespaceProperties,
  /** `value` null removes it. */
  setTopicPolicy: (at: TopicPath, { policy, value }: { policy: PolicyCalls; value: unknown }) =>
    policyCommands(restOf(at), nameOf(at), policy, value),
  createTopic: topicCreation,
  deleteTopic: topicDeletion,
  terminateTopic: (at: TopicPath): Commands => ({
    curl: curl("POST", `${restOf(at)}/terminate`),
    pulsarctl: line("pulsarctl", "topics", "terminate", nameOf(at)),
    pulsarAdmin: line("pulsar-admin", "topics", "terminate", nameOf(at)),
  }),
  unloadTopic: (at: TopicPath): Commands => ({
    curl: curl("PUT", `${restOf(at)}/unload`),
    pulsarctl: line("pulsarctl", "topics", "unload", nameOf(at)),
    pulsarAdmin: line("pulsar-admin", "topics", "unload", nameOf(at)),
  }),
  /** Pulsar's REST interface takes the position before which all closed ledgers are moved. */
  offloadTopic: (
    at: TopicPath,
    { keep_bytes: keep, before }: { keep_bytes: number; before: number },
  ): Commands => ({
    curl: curl("PUT", `${restOf(at)}/offload`, { ledgerId: before, entryId: 0, partitionIndex: -1 }),
    pulsarctl: line("pulsarctl", "topics", "offload", nameOf(at), String(keep)),
    pulsarAdmin: line("pulsar-admin", "topics", "offload", "--size-threshold", String(keep), nameOf(at)),
  }),
  scanOrphans: onlyHere,
  addPartitions: (at: TopicPath, { partitions }: { partitions: number }): Commands => ({
    curl: curl("POST", `${restOf(at)}/partitions`, partitions),
    pulsarctl: line("pulsarctl", "topics", "update", nameOf(at), String(partitions)),
    pulsarAdmin: line(
      ...["pulsar-admin", "topics", "update-partitioned-topic", "--partitions", String(partitions)],
      nameOf(at),
    ),
  }),
  setTopicProperties: properties,
  unloadBundle: (at: BundlePath): Commands => {
    const words = ["namespaces", "unload", "--bundle", at.bundle, `${at.tenant}/${at.namespace}`];
    return {
      curl: curl("PUT", `${namespaceOf(at, at.bundle)}/unload`),
      pulsarctl: line("pulsarctl", ...words),
      pulsarAdmin: line("pulsar-admin", ...words),
    };
  },
  splitBundle: bundleSplit,
  transferBundle: (at: BundlePath, { destination }: { destination: string }): Commands => {
    const words = ["namespaces", "unload", "--bundle", at.bundle, "--destinationBroker", destination];
    return {
      curl: curl(
        "PUT",
        `${namespaceOf(at, at.bundle)}/unload?destinationBroker=${encodeURIComponent(destination)}`,
      ),
      pulsarctl: { why: "pulsarctl moves no bundle to a named broker." },
      pulsarAdmin: line("pulsar-admin", ...words, `${at.tenant}/${at.namespace}`),
    };
  },
  unloadNamespace: (at: { tenant: string; namespace: string }): Commands => ({
    curl: curl("PUT", `${namespaceOf(at)}/unload`),
    pulsarctl: line("pulsarctl", "namespaces", "unload", `${at.tenant}/${at.namespace}`),
    pulsarAdmin: line("pulsar-admin", "namespaces", "unload", `${at.tenant}/${at.namespace}`),
  }),
  unloadBroker: brokerUnload,
  drainBroker: onlyHere,
  endDrain: onlyHere,
  switchRepair: onlyHere,
  setLostBookieDelay: onlyHere,
  triggerAudit: onlyHere,
  decommissionBookie: onlyHere,
  withdrawDecommission: onlyHere,
  traceEntries: onlyHere,
  endTracing: onlyHere,
  changeSetting: settingChange,
  changeRack: rackChange,
  skipAll: (at: OfSubscription) => cursorChange(at, "skip_all", ["skip", "--all"], ["clear-backlog"]),
  skip: (at: OfSubscription, { count }: { count: number }) =>
    cursorChange(at, `skip/${count}`, ["skip", "--count", String(count)], ["skip", "--count", String(count)]),
  reset: resetTo,
  undo: onlyHere,
  disconnectConsumer: onlyHere,
  acknowledgeMessage: onlyHere,
  disconnectClient: onlyHere,
  abortTransaction: ({ coordinator, number }: { coordinator: number; number: number }): Commands => ({
    curl: curl("POST", `/admin/v3/transactions/abortTransaction/${coordinator}/${number}`),
    pulsarctl: { why: "pulsarctl has no command for transactions." },
    pulsarAdmin: line(
      ...["pulsar-admin", "transactions", "abort-transaction"],
      ...["-m", String(coordinator), "-l", String(number)],
    ),
  }),
  /** The tools read the schema from a file with the body of the curl command: schema.json. */
  registerSchema: (at: TopicPath, { type, definition, properties: given = {} }: Candidate): Commands => {
    const body = { type, schema: definition, properties: given };
    const words = ["schemas", "upload", "--filename", "schema.json", nameOf(at)];
    return {
      curl: curl("POST", `${schemaOf(at)}/schema`, body),
      pulsarctl: line("pulsarctl", ...words),
      pulsarAdmin: line("pulsar-admin", ...words),
    };
  },
  deleteSchemas: (at: TopicPath): Commands => ({
    curl: curl("DELETE", `${schemaOf(at)}/schema`),
    pulsarctl: line("pulsarctl", "schemas", "delete", nameOf(at)),
    pulsarAdmin: line("pulsar-admin", "schemas", "delete", nameOf(at)),
  }),
  publishMessages: publishCommands,
  createChangeSet: onlyHere,
  compareDefinitions: onlyHere,
  applyDefinitions: onlyHere,
  confirmChangeSet: onlyHere,
  stopChangeSet: onlyHere,
  retryChangeSet: onlyHere,
  installSpark: onlyHere,
  collectSupportBundle: onlyHere,
  startRun: onlyHere,
  cancelRun: onlyHere,
  pinRun: onlyHere,
  unpinRun: onlyHere,
  createSchedule: onlyHere,
  deleteSchedule: onlyHere,
  saveView: onlyHere,
  renameView: onlyHere,
  deleteView: onlyHere,
} satisfies Partial<Record<keyof operations, unknown>>;

/** Calls with a body that change nothing: they are questions. */
export const QUESTIONS: (keyof operations)[] = [
  "judgeSchema",
  "rehearseSchema",
  "estimateRun",
  "previewAlertRule",
  "tryFunction",
];
