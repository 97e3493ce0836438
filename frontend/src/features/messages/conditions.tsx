import { TextInput } from "@mantine/core";
import { looks } from "../../shared/messages/looks";
import type { Conditions } from "./search";

export const CONDITIONS = [
  ["key", "Key", "the whole key"],
  ["text", "Text in the value", "any part of it"],
  ["property", "Property", "name=value or name"],
  ["producer", "Producer", "its whole name"],
  ["path", "JSON path", "$.lines[0].price"],
  ["equals", "Value at the path", "any"],
] as const;

/** The fields of the conditions, which a form reads by their names. */
export function ConditionFields({ search }: { search: Conditions }) {
  return (
    <div style={looks.fields}>
      {CONDITIONS.map(([name, label, hint]) => (
        <TextInput
          key={name}
          label={label}
          name={name}
          placeholder={hint}
          defaultValue={search[name] ?? ""}
        />
      ))}
    </div>
  );
}

/** The conditions of a submitted form. */
export function conditionsOf(form: FormData): Conditions {
  const field = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  return Object.fromEntries(CONDITIONS.map(([name]) => [name, field(name)])) as Conditions;
}
