// Policies as command lines: which paths and words Pulsar and its tools have for each row of the table of policies.

import type { Commands, Line } from "./commands";
import { curl, line } from "./shell";

type Fields = Record<string, unknown>;
export type PolicyValue = unknown;
export type PolicyLevel = "namespace" | "topic";

interface Words {
  /** What follows set- and remove-; another one of topics. */
  noun: string;
  ofTopic?: string;
  /** The options of pulsar-admin that say a value. */
  set: (value: PolicyValue, level: PolicyLevel) => string[];
  /** Those of pulsarctl, where it has the command. */
  ctl?: (value: PolicyValue, level: PolicyLevel) => string[];
  /** Levels that pulsarctl has commands for. */
  ctlAt?: PolicyLevel[];
  /** Options of the command that removes it. */
  remove?: string[];
}

const field = (value: PolicyValue, name: string): string => String((value as Fields)[name]);
const option = (flag: string) => (value: PolicyValue) => [flag, String(value)];
const onOff = (value: PolicyValue) => [value === true ? "--enable" : "--disable"];
const enabled = (name: string) => (value: PolicyValue) => onOff((value as Fields)[name]);

/** Options by field; one that the value leaves out is left out. */
const fields = (names: Record<string, string>) => (value: PolicyValue) =>
  Object.entries(names).flatMap(([name, flag]) => {
    const given = (value as Fields)[name];
    return given === undefined || given === null ? [] : [flag, String(given)];
  });

const perPeriod = (value: PolicyValue) => [
  ...fields({
    dispatchThrottlingRateInMsg: "--msg-dispatch-rate",
    dispatchThrottlingRateInByte: "--byte-dispatch-rate",
    ratePeriodInSecond: "--dispatch-rate-period",
  })(value),
  ...((value as Fields).relativeToPublishRate === true ? ["--relative-to-publish-rate"] : []),
];

function quota(type: "destination_storage" | "message_age"): Words {
  const isSize = type === "destination_storage";
  const words = (size: string, time: string) => (value: PolicyValue) => [
    ...(isSize ? [size, field(value, "limitSize")] : [time, field(value, "limitTime")]),
    ...["--policy", field(value, "policy"), "--type", type],
  ];
  return {
    noun: "backlog-quota",
    set: words("--limit", "--limitTime"),
    ctl: words("--limit-size", "--limit-time"),
    ctlAt: ["namespace", "topic"],
    remove: ["--type", type],
  };
}

const retention = (value: PolicyValue) => {
  const [minutes, megabytes] = [field(value, "retentionTimeInMinutes"), field(value, "retentionSizeInMB")];
  return [
    ...["--time", Number(minutes) > 0 ? `${minutes}m` : minutes],
    ...["--size", Number(megabytes) > 0 ? `${megabytes}M` : megabytes],
  ];
};

const limit = (noun: string, flag = `--${noun}`): Words => ({ noun, set: option(flag) });

const WORDS: Record<string, Words> = {
  messageTTL: {
    noun: "message-ttl",
    set: (value, level) => [level === "topic" ? "--ttl" : "--messageTTL", String(value)],
    ctl: (value, level) => [level === "topic" ? "--ttl" : "--messageTTL", String(value)],
    ctlAt: ["namespace", "topic"],
  },
  retention: { noun: "retention", set: retention, ctl: retention, ctlAt: ["namespace", "topic"] },
  "backlogQuota.destination_storage": quota("destination_storage"),
  "backlogQuota.message_age": quota("message_age"),
  maxProducersPerTopic: {
    noun: "max-producers-per-topic",
    ofTopic: "max-producers",
    set: (value, level) => [
      level === "topic" ? "--max-producers" : "--max-producers-per-topic",
      String(value),
    ],
    ctl: (value, level) => [level === "topic" ? "--max-producers" : "--size", String(value)],
    ctlAt: ["namespace", "topic"],
  },
  maxConsumersPerTopic: {
    noun: "max-consumers-per-topic",
    ofTopic: "max-consumers",
    set: (value, level) => [
      level === "topic" ? "--max-consumers" : "--max-consumers-per-topic",
      String(value),
    ],
    ctl: (value, level) => [level === "topic" ? "--max-consumers" : "--size", String(value)],
    ctlAt: ["namespace", "topic"],
  },
  maxConsumersPerSubscription: {
    ...limit("max-consumers-per-subscription"),
    ctl: option("--size"),
    ctlAt: ["namespace"],
  },
  maxSubscriptionsPerTopic: limit("max-subscriptions-per-topic"),
  maxTopicsPerNamespace: limit("max-topics-per-namespace"),
  persistence: {
    noun: "persistence",
    set: fields({
      bookkeeperEnsemble: "--bookkeeper-ensemble",
      bookkeeperWriteQuorum: "--bookkeeper-write-quorum",
      bookkeeperAckQuorum: "--bookkeeper-ack-quorum",
      managedLedgerMaxMarkDeleteRate: "--ml-mark-delete-max-rate",
    }),
    ctl: (value, level) =>
      fields({
        bookkeeperEnsemble: level === "topic" ? "--bookkeeper-ensemble" : "--ensemble-size",
        bookkeeperWriteQuorum: level === "topic" ? "--bookkeeper-write-quorum" : "--write-quorum-size",
        bookkeeperAckQuorum: level === "topic" ? "--bookkeeper-ack-quorum" : "--ack-quorum-size",
        managedLedgerMaxMarkDeleteRate: "--ml-mark-delete-max-rate",
      })(value),
    ctlAt: ["namespace", "topic"],
  },
  autoTopicCreation: {
    noun: "auto-topic-creation",
    set: (value) => [
      ...enabled("allowAutoTopicCreation")(value),
      ...fields({ topicType: "--type", defaultNumPartitions: "--num-partitions" })(value),
    ],
  },
  inactiveTopicPolicies: {
    noun: "inactive-topic-policies",
    set: (value) => [
      (value as Fields).deleteWhileInactive === true
        ? "--enable-delete-while-inactive"
        : "--disable-delete-while-inactive",
      ...["--max-inactive-duration", `${field(value, "maxInactiveDurationSeconds")}s`],
      ...["--delete-mode", field(value, "inactiveTopicDeleteMode")],
    ],
  },
  subscriptionExpirationTime: limit("subscription-expiration-time", "--time"),
  maxUnackedMessagesPerConsumer: {
    noun: "max-unacked-messages-per-consumer",
    set: (value, level) => [
      level === "topic" ? "--maxNum" : "--max-unacked-messages-per-topic",
      String(value),
    ],
    ctl: option("--maxNum"),
    ctlAt: ["topic"],
  },
  maxUnackedMessagesPerSubscription: {
    noun: "max-unacked-messages-per-subscription",
    set: (value, level) => [
      level === "topic" ? "--maxNum" : "--max-unacked-messages-per-subscription",
      String(value),
    ],
    ctl: option("--maxNum"),
    ctlAt: ["topic"],
  },
  deduplication: { noun: "deduplication", set: onOff, ctl: onOff, ctlAt: ["topic"] },
  deduplicationSnapshotInterval: limit("deduplication-snapshot-interval", "--interval"),
  publishRate: {
    noun: "publish-rate",
    set: fields({
      publishThrottlingRateInMsg: "--msg-publish-rate",
      publishThrottlingRateInByte: "--byte-publish-rate",
    }),
    ctl: (value, level) =>
      fields({
        publishThrottlingRateInMsg: level === "topic" ? "--msg-publish-rate" : "--msg-rate",
        publishThrottlingRateInByte: level === "topic" ? "--byte-publish-rate" : "--byte-rate",
      })(value),
    ctlAt: ["namespace", "topic"],
  },
  dispatchRate: { noun: "dispatch-rate", set: perPeriod, ctl: perPeriod, ctlAt: ["topic"] },
  subscriptionDispatchRate: {
    noun: "subscription-dispatch-rate",
    set: perPeriod,
    ctl: perPeriod,
    ctlAt: ["topic"],
  },
  subscribeRate: {
    noun: "subscribe-rate",
    set: fields({
      subscribeThrottlingRatePerConsumer: "--subscribe-rate",
      ratePeriodInSecond: "--subscribe-rate-period",
    }),
  },
  maxMessageSize: limit("max-message-size"),
  subscriptionTypesEnabled: {
    noun: "subscription-types-enabled",
    set: (value) => ["--types", (value as string[]).join(",")],
  },
  compactionThreshold: {
    noun: "compaction-threshold",
    set: option("--threshold"),
    ctl: (value, level) => [level === "topic" ? "--threshold" : "--size", String(value)],
    ctlAt: ["namespace", "topic"],
  },
};

/** Policies whose routes of a topic have other names than those of a namespace. */
const TOPIC_ROUTES: Record<string, string> = {
  maxProducersPerTopic: "maxProducers",
  maxConsumersPerTopic: "maxConsumers",
  maxUnackedMessagesPerConsumer: "maxUnackedMessagesOnConsumer",
  maxUnackedMessagesPerSubscription: "maxUnackedMessagesOnSubscription",
  deduplication: "deduplicationEnabled",
};
const PUT = ["schemaCompatibilityStrategy", "schemaAutoUpdateCompatibilityStrategy"];
const KEPT = [
  "isAllowAutoUpdateSchema",
  "schemaValidationEnforced",
  "schemaAutoUpdateCompatibilityStrategy",
  "encryptionRequired",
];

function call(rest: string, policy: string, value: PolicyValue, level: PolicyLevel): Line {
  const [name = policy, type] = policy.split(".");
  const route = level === "topic" ? (TOPIC_ROUTES[name] ?? name) : name;
  const at = `${rest}/${route}${type ? `?backlogQuotaType=${type}` : ""}`;
  const puts = PUT.includes(name) || (name === "compactionThreshold" && level === "namespace");
  if (value !== null) return curl(puts ? "PUT" : "POST", at, value);
  if (KEPT.includes(name))
    return { why: "Pulsar's REST interface has no call that removes it; the console removes it itself." };
  if (level === "namespace" && name === "schemaCompatibilityStrategy") return curl("PUT", at, null);
  if (level === "namespace" && name === "deduplicationSnapshotInterval") return curl("POST", at, null);
  return curl("DELETE", at);
}

/** Setting a policy, or removing it with null. `rest`: path of the namespace or topic; `name`: as the tools take it. */
export function policyCommands(
  rest: string,
  name: string,
  level: PolicyLevel,
  policy: string,
  value: PolicyValue,
): Commands {
  const words = WORDS[policy];
  const noun = words && ((level === "topic" && words.ofTopic) || words.noun);
  const verb = `${value === null ? "remove" : "set"}-${noun}`;
  const group = level === "topic" ? "topics" : "namespaces";
  const made = (tool: string, where: string, said: string[]) => line(tool, where, verb, ...said, name);
  const removed = words?.remove ?? [];
  const isCtl =
    words?.ctl !== undefined && words.ctlAt?.includes(level) && (value !== null || level === "topic");
  return {
    curl: call(rest, policy, value, level),
    pulsarctl:
      words?.ctl && isCtl
        ? made("pulsarctl", group, value === null ? removed : words.ctl(value, level))
        : { why: "No command of pulsarctl is known to do just this: use curl." },
    pulsarAdmin: words
      ? made(
          "pulsar-admin",
          level === "topic" ? "topicPolicies" : group,
          value === null ? removed : words.set(value, level),
        )
      : { why: "No command of pulsar-admin is known to do just this: use curl." },
  };
}
