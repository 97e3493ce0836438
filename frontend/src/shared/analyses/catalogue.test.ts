// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Analysis } from "../../api/types";
import { analysisOf, givenAt, grouped, kindOf } from "./catalogue";

function analysis(name: string, targets: Analysis["targets"], ...more: string[]): Analysis {
  const names = [...targets.filter((kind) => kind !== "cluster"), ...more];
  const properties = Object.fromEntries(names.map((property) => [property, { type: "string" }]));
  return { name, title: name, question: `${name}?`, targets, parameters: { type: "object", properties } };
}

const FIND = analysis("find", ["topic", "namespace"]);
const BEHIND = analysis("who-is-behind", ["topic", "namespace", "tenant"], "subscription");
const DISK = analysis("disk-not-freed", ["topic", "namespace", "tenant", "cluster"]);
const NEW = analysis("of-tomorrow", ["topic"]);

test("analyses are in groups, those that this console does not know in the last one", () => {
  const titles = grouped([NEW, DISK, BEHIND, FIND], null).map(([title, members]) => [
    title,
    ...members.map(({ name }) => name),
  ]);
  expect(titles).toEqual([
    ["Find and explain", "find", "who-is-behind"],
    ["Storage and cost", "disk-not-freed"],
    ["More", "of-tomorrow"],
  ]);
});

test("only analyses that can read the kind of object are offered", () => {
  expect(grouped([NEW, DISK, BEHIND, FIND], "tenant").flatMap(([, members]) => members)).toEqual([
    BEHIND,
    DISK,
  ]);
  expect(grouped([NEW, FIND], "cluster")).toEqual([]);
});

test("a form is filled in with what is known of the place, and with one target", () => {
  const place = { topic: "persistent://a/b/c", tenant: "a", subscription: "s", other_cluster: "eu" };
  expect(kindOf(place)).toBe("topic");
  expect(givenAt(place, BEHIND)).toEqual({ topic: "persistent://a/b/c", subscription: "s" });
  expect(givenAt(place, FIND)).toEqual({ topic: "persistent://a/b/c" });
  expect(givenAt({ tenant: "a" }, FIND)).toEqual({});
  expect(kindOf({})).toBe("cluster");
});

test("a problem leads to the analysis that explains it", () => {
  expect(analysisOf({ cause: "no-consumer", subscription: "s" })).toBe("who-is-behind");
  expect(analysisOf({ cause: "bookie-read-only", subscription: "" })).toBe("disk-not-freed");
  expect(analysisOf({ cause: "link-eu", subscription: "" })).toBe("");
});
