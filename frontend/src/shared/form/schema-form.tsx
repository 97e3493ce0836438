import { Checkbox, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useId } from "react";
import { count } from "../../lib/format";
import type { Field, FormValue, FormValues } from "./schema-fields";

/** The controls of a JSON Schema's fields. It only shows and reports; the page around it holds the values. */
export function SchemaForm({
  fields,
  values,
  problems,
  suggestions = {},
  onChange,
  lang,
  disabled = false,
}: {
  fields: Field[];
  values: FormValues;
  problems: Record<string, string>;
  suggestions?: Record<string, string[]>;
  onChange: (name: string, value: FormValue) => void;
  /** The language of the schema's titles and descriptions, if it is not the console's. */
  lang?: string;
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
          lang={lang}
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
  lang: string | undefined;
  disabled: boolean;
  onChange: (value: FormValue) => void;
}

function Control({ field, value, problem, suggestions, lang, disabled, onChange }: ControlProps) {
  const listId = useId();
  const common = {
    name: field.name,
    label: <span lang={lang}>{field.label}</span>,
    description: described(field, lang),
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
          {...(lang ? { lang } : {})}
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
function described(field: Field, lang: string | undefined) {
  const text = field.description?.replace(/\.$/, "");
  const limits = limitsOf(field);
  if (!text) return limits && `${capital(limits)}.`;
  if (lang === undefined) return `${capital(text)}${limits ? `; ${limits}` : ""}.`;
  return (
    <>
      <span lang={lang}>{capital(text)}</span>
      {limits && `; ${limits}`}.
    </>
  );
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function limitsOf({ kind, schema: { minimum, maximum } }: Field): string | null {
  if (minimum !== undefined && maximum !== undefined) return `${count(minimum)} to ${count(maximum)}`;
  if (minimum !== undefined) return `at least ${count(minimum)}`;
  if (maximum !== undefined) return `at most ${count(maximum)}`;
  if (kind === "lines") return "Ctrl Enter starts";
  if (kind === "list") return "one per line";
  if (kind === "json") return "as JSON";
  return kind === "time" ? "in this browser's time zone" : null;
}
