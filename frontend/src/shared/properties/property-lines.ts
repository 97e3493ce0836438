// Properties of topics and namespaces as lines of text, and the differences of two of them.

import type { Commands } from "../commands/shell";

export type Properties = Record<string, string>;

/** The owner of the properties, with the call that changes them. */
export interface Kept {
  what: "topic" | "namespace";
  name: string;
  /** Has it the properties `value`, as long as it has `expected`; a 409 else. */
  save: (value: Properties, expected: Properties) => Promise<unknown>;
  /** The present ones; null when they cannot be read. */
  read: () => Promise<Properties | null>;
  commands: (value: Properties, expected: Properties) => Commands;
}

export function textOf(given: Properties): string {
  return Object.entries(given)
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");
}

/** The properties of the lines; `problem` names the first invalid line. */
export function propertiesOf(text: string): { value: Properties; problem: string | null } {
  const value: Properties = {};
  let problem: string | null = null;
  for (const line of text.split("\n").filter((each) => each.trim() !== "")) {
    const at = line.indexOf("=");
    const name = line.slice(0, at).trim();
    if (at < 0 || name === "") problem ??= `Not of the form name=value: ${line.trim()}`;
    else if (name in value) problem ??= `Given twice: ${name}`;
    else value[name] = line.slice(at + 1).trim();
  }
  return { value, problem };
}

/** The effect of saving, as text. */
export function changesOf(before: Properties, after: Properties): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => {
    const [was, is] = [before[name], after[name]];
    if (was === is) return [];
    if (was === undefined) return [`${name} is set to "${is}"`];
    return [is === undefined ? `${name} is removed` : `${name} changes from "${was}" to "${is}"`];
  });
}
