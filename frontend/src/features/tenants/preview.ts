import { plural } from "../../lib/format";
import type { Policy } from "./queries";
import { describe, differing, inForce, type Value } from "./values";

export interface Preview {
  /** Whether there is anything to save. */
  changes: boolean;
  text: string;
}

const SETTERS = { broker: "the brokers", namespace: "this namespace", topic: "the topic" };

/** What storing `next` would change; null removes the namespace's value. */
export function previewOf(policy: Policy, next: Value, topics: number): Preview {
  const before = policy.value as Value;
  const own = policy.own as Value;
  if (differing(policy, next, own).length === 0)
    return {
      changes: false,
      text:
        own === null ? "Nothing is set here." : `Nothing changes: it is ${describe(policy, own)} already.`,
    };
  const after = inForce(policy, next);
  const setter = next === null ? "broker" : "namespace";
  const parts = differing(policy, before, after);
  if (parts.length === 0 && policy.level !== null)
    return {
      changes: true,
      text: `The value stays ${describe(policy, before)}, but is set by ${SETTERS[setter]} from now on, no longer by ${SETTERS[policy.level]}.`,
    };
  const said = (value: Value, by: Policy["level"]) => {
    const text = describe(policy, value, parts);
    return value === null || by === null ? text : `${text}, set by ${SETTERS[by]},`;
  };
  const rest = parts.length < policy.parts.length ? " The rest keeps its value." : "";
  const text = `From ${said(before, policy.level)} to ${said(after, setter)} ${reachOf(policy, topics)}.${rest}`;
  return { changes: true, text };
}

function reachOf(policy: Policy, topics: number): string {
  if (!policy.topics_own) return "for the namespace as a whole";
  if (topics === 0) return "for topics to come that set none of their own; none is stored now";
  const known = topics === 1 ? "the 1 stored topic" : `those of the ${plural(topics, "stored topic")}`;
  return `for ${known} here that set none of their own`;
}
