import { expect, describe as group, test } from "vitest";
import type { Part, Policy } from "./policy-queries";
import {
  describe,
  labelOf,
  limitsOf,
  problemsOf,
  readable,
  specialsOf,
  textsOf,
  toValue,
  type Value,
} from "./policy-values";

const whole = (name: string, more: Partial<Part> = {}): Part => ({
  name,
  type: "integer",
  optional: false,
  minimum: "0",
  maximum: "2147483647",
  ...more,
});

const policy = (parts: Part[], more: Partial<Policy> = {}): Policy => ({
  name: "p",
  title: "P",
  meaning: "",
  parts,
  topics_own: true,
  value: null,
  level: null,
  own: null,
  inherited: null,
  inherited_level: "broker",
  rest: { path: "messageTTL", method: "POST", value_query: "", removal: null },
  commands: [],
  ...more,
});

const ttl = policy([whole("", { unit: "seconds" })], { meaning: "Older ones count as read; 0 is never" });
const retention = policy(
  [
    whole("retentionTimeInMinutes", { unit: "minutes", minimum: "-1" }),
    whole("retentionSizeInMB", { unit: "MiB", minimum: "-1" }),
  ],
  { meaning: "How long and how much is kept; -1 is no limit, 0 and 0 none: deleted once acknowledged" },
);
const quota = policy(
  [
    whole("limitSize", { unit: "bytes", minimum: "-1", maximum: "9223372036854775807" }),
    { name: "policy", type: "string", optional: false, enum: ["producer_exception"] },
  ],
  { meaning: "What happens above; -1 is no limit" },
);

const rate = policy(
  [
    whole("publishThrottlingRateInMsg", { unit: "messages per second", minimum: "-1" }),
    whole("publishThrottlingRateInByte", { unit: "bytes per second", minimum: "-1" }),
  ],
  { meaning: "How much may be sent; -1 and 0 are no limit" },
);
const types = policy([
  { name: "", type: "array", optional: false, enum: ["Exclusive", "Shared", "Failover", "Key_Shared"] },
]);

group("how people read a value", () => {
  test("an unlimited part of a rate is shown as no limit", () => {
    expect(describe(rate, { publishThrottlingRateInMsg: 1000, publishThrottlingRateInByte: -1 })).toBe(
      "publish throttling rate in msg 1,000 messages per second, publish throttling rate in byte no limit (-1)",
    );
    expect(specialsOf(rate.meaning).get("0")).toBe("no limit");
  });

  test("words of a list are read, chosen and returned as a list", () => {
    expect(describe(types, ["Shared", "Key_Shared"])).toBe("Shared, Key_Shared");
    expect(textsOf({ ...types, own: ["Shared", "Key_Shared"] })).toEqual({ "": "Shared,Key_Shared" });
    expect(problemsOf(types, { "": "" })).toEqual({ "": "Give a value" });
    expect(toValue(types, { "": "Exclusive,Shared" })).toEqual(["Exclusive", "Shared"]);
  });

  test("seconds, minutes and bytes have a readable unit beside the stored number", () => {
    const [part] = ttl.parts as [Part];
    expect(readable(ttl, part, 600)).toEqual({ text: "10 min", raw: "600 seconds" });
    expect(readable(ttl, part, 30)).toEqual({ text: "30 s", raw: null });
    expect(describe(retention, { retentionTimeInMinutes: 1440, retentionSizeInMB: 2048 })).toBe(
      "retention time 1 d (1,440 minutes), retention size 2 GiB (2,048 MiB)",
    );
  });

  test("special numbers are shown with their meaning in the policy", () => {
    expect([...specialsOf(ttl.meaning)]).toEqual([["0", "never"]]);
    expect(describe(ttl, 0)).toBe("never (0)");
    expect(describe(retention, { retentionTimeInMinutes: -1, retentionSizeInMB: 0 })).toBe(
      "retention time no limit (-1), retention size none: deleted once acknowledged (0)",
    );
  });

  test("a record without a limit is shown as one text, without its action", () => {
    expect(describe(retention, { retentionTimeInMinutes: 0, retentionSizeInMB: 0 })).toBe(
      "none: deleted once acknowledged",
    );
    expect(describe(quota, { limitSize: -1, policy: "producer_exception" })).toBe("no limit");
    expect(describe(rate, { publishThrottlingRateInMsg: -1, publishThrottlingRateInByte: 0 })).toBe(
      "no limit",
    );
  });

  test("an unknown value is not shown as a number", () => {
    expect(describe(ttl, null)).toBe("unknown");
  });

  test("a number above JavaScript's exact range stays as it is stored", () => {
    const value = { limitSize: "9223372036854775807", policy: "producer_exception" };
    expect(describe(quota, value)).toContain("9,223,372,036,854,775,807 bytes");
  });

  test("labels have no unit, which is beside the number", () => {
    expect(retention.parts.map(labelOf)).toEqual(["Retention time", "Retention size"]);
    expect(limitsOf(whole("x", { unit: "bytes", minimum: "-1", optional: true }))).toBe(
      "Bytes, -1 to 2,147,483,647, may be empty",
    );
  });
});

group("the form", () => {
  test("starts with the namespace's value, else the effective one", () => {
    expect(textsOf({ ...ttl, value: 60 })).toEqual({ "": "60" });
    expect(textsOf({ ...ttl, value: 60, own: 5 })).toEqual({ "": "5" });
    const optional = policy([whole("count", { optional: true })], { value: { count: 1 } });
    expect(textsOf(optional)).toEqual({ count: "" });
  });

  test("shows each error at its field", () => {
    expect(problemsOf(ttl, { "": "" })).toEqual({ "": "Give a value" });
    expect(problemsOf(ttl, { "": "1.5" })).toEqual({ "": "Must be a whole number" });
    expect(problemsOf(ttl, { "": "-1" })).toEqual({ "": "Must be at least 0" });
    expect(problemsOf(ttl, { "": "2147483648" })).toEqual({ "": "Must be at most 2,147,483,647" });
    expect(problemsOf(quota, { limitSize: "9223372036854775808", policy: "x" })).toEqual({
      limitSize: "Must be at most 9,223,372,036,854,775,807",
    });
    expect(problemsOf(retention, { retentionTimeInMinutes: "-1", retentionSizeInMB: " 7 " })).toEqual({});
  });

  test("returns the stored value exactly, including hidden fields", () => {
    const own: Value = { limit: 5, limitSize: 5, limitTime: 9, policy: "producer_exception" };
    const texts = { limitSize: "9223372036854775807", policy: "producer_exception" };
    expect(toValue({ ...quota, own }, texts)).toEqual({ ...own, limitSize: "9223372036854775807" });
    expect(toValue(ttl, { "": " 60 " })).toBe(60);
  });

  test("an empty optional field is omitted", () => {
    const optional = policy([whole("count", { optional: true })], { own: { count: 1 } });
    expect(toValue(optional, { count: "" })).toEqual({});
    const flag = policy([{ name: "", type: "boolean", optional: false }]);
    expect(toValue(flag, { "": "true" })).toBe(true);
  });
});
