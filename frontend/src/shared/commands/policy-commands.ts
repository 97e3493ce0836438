// Policies as command lines, from the calls and words that the row of the policy has.

import type { components } from "../../api/schema";
import { type Commands, curl, type Line, line } from "./shell";

type Schemas = components["schemas"];
type Option = Schemas["PolicyOption"];
type Tool = Schemas["PolicyCommand"]["tool"];

/** The calls that set and remove a policy at one place. */
export type PolicyCalls = Pick<Schemas["PolicyRow"], "rest" | "commands">;

function call(
  parent: string,
  { path, method, value_query, removal }: Schemas["PolicyRest"],
  value: unknown,
): Line {
  const at = `${parent}/${path}`;
  if (value !== null)
    return value_query
      ? curl(method, `${at}?${value_query}=${encodeURIComponent(String(value))}`)
      : curl(method, at, value);
  if (removal === null)
    return { why: "Pulsar's REST interface has no call that removes it; the console removes it itself." };
  return removal.method === "DELETE" ? curl("DELETE", at) : curl(removal.method, at, removal.body);
}

/** The words for the option's field of the value; undefined when the tool cannot express it. */
function optionWords({ flag, field, suffix, divisor, cases }: Option, value: unknown): string[] | undefined {
  const given = field === "" ? value : (value as Record<string, unknown>)[field];
  if (given === undefined || given === null) return [];
  const text = Array.isArray(given) ? given.join(",") : String(given);
  if (cases) return cases[text];
  if (text === "") return undefined;
  if (divisor !== 1) {
    const number = BigInt(text); // Large numbers come as text, which a number would round.
    if (number % BigInt(divisor) !== 0n) return undefined;
    return [flag, `${number / BigInt(divisor)}${suffix}`];
  }
  return [flag, text.startsWith("-") ? text : `${text}${suffix}`];
}

function toolLine(tool: Tool, name: string, { commands }: PolicyCalls, value: unknown): Line {
  const command = commands.find((other) => other.tool === tool);
  if (!command) return { why: `${tool} has no command for this policy: use curl.` };
  if (value === null)
    return command.remove.length > 0
      ? line(tool, ...command.remove, name)
      : { why: `${tool} has no command that removes it.` };
  const words: string[] = [];
  for (const option of command.options) {
    const own = optionWords(option, value);
    if (own === undefined) return { why: `${tool} cannot express this value: use curl.` };
    words.push(...own);
  }
  return line(tool, ...command.set, ...words, name);
}

/**
 * Setting a policy, or removing it with null. `parent`: path of the namespace or topic in Pulsar's REST interface;
 * `name`: its name for the tools.
 */
export function policyCommands(parent: string, name: string, policy: PolicyCalls, value: unknown): Commands {
  return {
    curl: call(parent, policy.rest, value),
    pulsarctl: toolLine("pulsarctl", name, policy, value),
    pulsarAdmin: toolLine("pulsar-admin", name, policy, value),
  };
}
