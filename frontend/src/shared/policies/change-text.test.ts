import { expect, test } from "vitest";
import { changeOf } from "./change-text";
import type { Policy } from "./policy-queries";

const ttl: Policy = {
  name: "messageTTL",
  title: "Message TTL",
  meaning: "Messages older than this count as acknowledged; 0 is never",
  parts: [{ name: "", type: "integer", optional: false, minimum: "0", unit: "seconds" }],
  topics_own: true,
  value: 0,
  level: "broker",
  own: null,
  inherited: 0,
  inherited_level: "broker",
  rest: { path: "messageTTL", method: "POST", value_query: "", removal: null },
  commands: [],
};
const set: Policy = { ...ttl, value: 600, level: "namespace", own: 600 };

test("a change names the old and new value, the level and the topics", () => {
  expect(changeOf(ttl, 600, { level: "namespace", topics: 12 })).toEqual({
    changes: true,
    text: "From never (0), set by the brokers, to 10 min (600 seconds), set by this namespace, for those of the 12 stored topics here that set none of their own.",
  });
  expect(changeOf(ttl, 600, { level: "namespace", topics: 1 }).text).toContain(
    "for the 1 stored topic here that set",
  );
  expect(changeOf(ttl, 600, { level: "namespace", topics: 0 }).text).toContain("none is stored now");
  expect(changeOf({ ...ttl, topics_own: false }, 600, { level: "namespace", topics: 3 }).text).toContain(
    "for the namespace as a whole",
  );
});

test("removing a value shows the next effective one", () => {
  expect(changeOf(set, null, { level: "namespace", topics: 2 }).text).toMatch(
    /^From 10 min \(600 seconds\), set by this namespace, to never \(0\), set by the brokers,/,
  );
});

test("an equal value from another level is a separate kind of change", () => {
  const found = changeOf(ttl, 0, { level: "namespace", topics: 3 });
  expect(found.changes).toBe(true);
  expect(found.text).toBe(
    "The value stays never (0), but is set by this namespace from now on, no longer by the brokers.",
  );
});

test("an unchanged value is reported as such", () => {
  expect(changeOf(set, 600, { level: "namespace", topics: 3 })).toEqual({
    changes: false,
    text: "Nothing changes: it is 10 min (600 seconds) already.",
  });
  expect(changeOf(ttl, null, { level: "namespace", topics: 3 }).changes).toBe(false);
});

test("an unknown value is not guessed", () => {
  const unknown: Policy = { ...ttl, value: null, level: null, inherited: null };
  expect(changeOf(unknown, 600, { level: "namespace", topics: 3 }).text).toContain("From unknown to 10 min");
  expect(changeOf({ ...set, inherited: null }, null, { level: "namespace", topics: 3 }).text).toContain(
    ", to unknown for those of",
  );
});

test("only changed members of a record are named, and missing ones are inherited", () => {
  const whole = (name: string, unit: string) => ({
    name,
    type: "integer" as const,
    optional: false,
    minimum: "-1",
    unit,
  });
  const retention: Policy = {
    ...set,
    parts: [whole("retentionTimeInMinutes", "minutes"), whole("retentionSizeInMB", "MiB")],
    value: { retentionTimeInMinutes: 60, retentionSizeInMB: 1024 },
    own: { retentionTimeInMinutes: 60, retentionSizeInMB: 1024 },
    inherited: { retentionTimeInMinutes: 5, retentionSizeInMB: 5 },
  };
  const next = { retentionTimeInMinutes: 90, retentionSizeInMB: 1024 };
  expect(changeOf(retention, next, { level: "namespace", topics: 2 }).text).toBe(
    "From retention time 1 h (60 minutes), set by this namespace, to retention time 1 h 30 min (90 minutes), set by this namespace, for those of the 2 stored topics here that set none of their own. The rest keeps its value.",
  );
  expect(
    changeOf(retention, { retentionTimeInMinutes: 60 }, { level: "namespace", topics: 2 }).text,
  ).toContain("to retention size 5 MiB,");
});

test("removing a topic's value names the next effective level", () => {
  const own: Policy = { ...set, level: "topic", inherited: 60, inherited_level: "namespace" };
  expect(changeOf(own, null, { level: "topic" }).text).toBe(
    "From 10 min (600 seconds), set by this topic, to 1 min (60 seconds), set by the namespace.",
  );
  const shared: Policy = { ...own, inherited_level: "global" };
  expect(changeOf(shared, null, { level: "topic" }).text).toMatch(/set by this topic in all clusters\.$/);
});
