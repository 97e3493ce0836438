import { plural } from "../../lib/format";
import type { Policy, PolicyPlace } from "./policy-queries";
import { describe, differing, inForce, type Value } from "./policy-values";

export interface Change {
  /** Whether there is anything to save. */
  changes: boolean;
  text: string;
}

type Level = NonNullable<Policy["level"]>;
type Where = { level: "namespace"; topics: number } | { level: "topic" };

/** The level that sets a value, as seen from the place of the policy. */
export function setterOf(level: Level, at: PolicyPlace["level"]): string {
  if (level === "broker") return "the brokers";
  if (level === "global") return "this topic in all clusters";
  return level === at ? `this ${level}` : `the ${level}`;
}

/** The effect of storing `next`; null removes the value that is set there. */
export function changeOf(policy: Policy, next: Value, where: Where): Change {
  const before = policy.value as Value;
  const own = policy.own as Value;
  if (differing(policy, next, own).length === 0)
    return {
      changes: false,
      text:
        own === null ? "Nothing is set here." : `Nothing changes: it is ${describe(policy, own)} already.`,
    };
  const after = inForce(policy, next);
  const setter = next === null ? (policy.inherited_level ?? "broker") : where.level;
  const parts = differing(policy, before, after);
  const by = (level: Level) => setterOf(level, where.level);
  if (parts.length === 0 && policy.level !== null)
    return {
      changes: true,
      text: `The value stays ${describe(policy, before)}, but is set by ${by(setter)} from now on, no longer by ${by(policy.level)}.`,
    };
  const valueText = (value: Value, level: Policy["level"]) => {
    const text = describe(policy, value, parts);
    return value === null || level === null ? text : `${text}, set by ${by(level)},`;
  };
  const rest = parts.length < policy.parts.length ? " The rest keeps its value." : "";
  const reach = reachOf(policy, where);
  const text = `From ${valueText(before, policy.level)} to ${valueText(after, setter)}${reach}`.replace(
    /,$/,
    "",
  );
  return { changes: true, text: `${text}.${rest}` };
}

function reachOf(policy: Policy, where: Where): string {
  if (where.level === "topic") return "";
  if (!policy.topics_own) return " for the namespace as a whole";
  const { topics } = where;
  if (topics === 0) return " for future topics that set none of their own; none is stored now";
  const known = topics === 1 ? "the 1 stored topic" : `those of the ${plural(topics, "stored topic")}`;
  return ` for ${known} here that set none of their own`;
}
