import { Checkbox, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useId } from "react";
import type { Field, FormValue, FormValues } from "./schema-fields";

/** The controls of a JSON Schema's fields. It only shows and reports; the page around it holds the values. */
export function SchemaForm({
  fields,
  values,
  problems,
  suggestions = {},
  onChange,
  disabled = false,
}: {
  fields: Field[];
  values: FormValues;
  problems: Record<string, string>;
  suggestions?: Record<string, string[]>;
  onChange: (name: string, value: FormValue) => void;
  disabled?: boolean;
}) {
  return (
    <div style={{ display: "grid", gap: 16 }}>
      {fields.map((field) => (
        <Control
          key={field.name}
          field={field}
          value={values[field.name] ?? ""}
          problem={problems[field.name]}
          suggestions={suggestions[field.name] ?? []}
          disabled={disabled}
          onChange={(value) => onChange(field.name, value)}
        />
      ))}
    </div>
  );
}

interface ControlProps {
  field: Field;
  value: FormValue;
  problem: string | undefined;
  suggestions: string[];
  disabled: boolean;
  onChange: (value: FormValue) => void;
}

function Control({ field, value, problem, suggestions, disabled, onChange }: ControlProps) {
  const listId = useId();
  const common = {
    name: field.name,
    label: field.label,
    description: describe(field),
    required: field.required && !field.nullable,
    error: problem,
    disabled,
  };
  if (field.kind === "boolean") {
    const { required: _, ...rest } = common;
    return (
      <Checkbox
        {...rest}
        checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    );
  }
  const text = String(value);
  switch (field.kind) {
    case "choice":
      return (
        <NativeSelect
          {...common}
          value={text}
          data={[...(common.required ? [] : [{ value: "", label: "Default" }]), ...field.choices]}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    case "lines":
    case "list":
    case "json":
      return (
        <Textarea
          {...common}
          autosize
          minRows={field.kind === "lines" ? 6 : 2}
          maxRows={field.kind === "lines" ? 24 : 8}
          spellCheck={false}
          classNames={field.kind === "lines" ? { input: "mono" } : {}}
          value={text}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    case "time":
      return (
        <TextInput
          {...common}
          type="datetime-local"
          step={1}
          value={text}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
    default:
      return (
        <>
          <TextInput
            {...common}
            {...(suggestions.length > 0 ? { list: listId } : {})}
            {...(field.kind === "text"
              ? {}
              : { inputMode: "decimal" as const, styles: { wrapper: { maxWidth: 240 } } })}
            {...(field.schema.writeOnly ? { type: "password" } : {})}
            spellCheck={false}
            autoComplete={field.schema.writeOnly ? "new-password" : "off"}
            value={text}
            onChange={(event) => onChange(event.currentTarget.value)}
          />
          {suggestions.length > 0 && (
            <datalist id={listId}>
              {suggestions.map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          )}
        </>
      );
  }
}

/** The schema's description and limits, shown before a value is rejected. */
function describe(field: Field): string | undefined {
  const { minimum, maximum } = field.schema;
  const limits =
    minimum !== undefined && maximum !== undefined
      ? `${minimum.toLocaleString("en")} to ${maximum.toLocaleString("en")}`
      : minimum !== undefined
        ? `at least ${minimum.toLocaleString("en")}`
        : maximum !== undefined
          ? `at most ${maximum.toLocaleString("en")}`
          : field.kind === "lines"
            ? "Ctrl Enter starts"
            : field.kind === "list"
              ? "one per line"
              : field.kind === "json"
                ? "as JSON"
                : field.kind === "time"
                  ? "in this browser's time zone"
                  : null;
  const parts = [field.description?.replace(/\.$/, ""), limits].filter(Boolean);
  const text = parts.join("; ");
  return text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}.` : undefined;
}
