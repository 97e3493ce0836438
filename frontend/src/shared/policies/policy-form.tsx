import { Checkbox, NativeSelect, TextInput } from "@mantine/core";
import { localized } from "../../lib/language/sentences";
import { ClusterChoice } from "./cluster-choice";
import styles from "./policies.module.css";
import type { Part, Policy } from "./policy-queries";
import { labelOf, limitsOf, readable, type Texts } from "./policy-values";

/** A field for each part of a policy's value. It only shows and reports; the dialog around it holds the texts. */
export function PolicyForm({
  policy,
  texts,
  problems,
  onChange,
}: {
  policy: Policy;
  texts: Texts;
  problems: Texts;
  onChange: (name: string, text: string) => void;
}) {
  return (
    <div className={styles.fields}>
      {policy.parts.map((part) => (
        <Field
          key={part.name}
          policy={policy}
          part={part}
          text={texts[part.name] ?? ""}
          problem={problems[part.name]}
          onChange={(text) => onChange(part.name, text)}
        />
      ))}
    </div>
  );
}

function Field({
  policy,
  part,
  text,
  problem,
  onChange,
}: {
  policy: Policy;
  part: Part;
  text: string;
  problem: string | undefined;
  onChange: (text: string) => void;
}) {
  const common = {
    name: part.name,
    label: part.name === "" ? localized(policy.title) : labelOf(part),
    error: problem,
    "data-autofocus": part === policy.parts[0] || undefined,
  };
  if (part.type === "boolean")
    return (
      <Checkbox
        {...common}
        checked={text === "true"}
        onChange={(event) => onChange(String(event.currentTarget.checked))}
      />
    );
  if (part.type === "array" && part.enum === undefined)
    return (
      <ClusterChoice
        label={common.label}
        name={part.name}
        chosen={text === "" ? [] : text.split(",")}
        problem={problem}
        onChange={(chosen) => onChange(chosen.join(","))}
      />
    );
  if (part.type === "array")
    return (
      <Checkbox.Group
        label={common.label}
        error={problem}
        value={text === "" ? [] : text.split(",")}
        onChange={(chosen) => onChange(chosen.join(","))}
      >
        {part.enum?.map((word) => (
          <Checkbox key={word} name={part.name} value={word} label={word} />
        ))}
      </Checkbox.Group>
    );
  if (part.enum)
    return (
      <NativeSelect
        {...common}
        value={text}
        data={text === "" ? [{ value: "", label: "Choose…" }, ...part.enum] : part.enum}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    );
  return (
    <TextInput
      {...common}
      description={[limitsOf(part), problem ? null : inWords(policy, part, text)].filter(Boolean).join(" · ")}
      inputMode={part.type === "string" ? "text" : "decimal"}
      autoComplete="off"
      spellCheck={false}
      value={text}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

/** The number in the field in a readable unit, e.g. "600 is 10 min". */
function inWords(policy: Policy, part: Part, text: string): string | null {
  if (!/^-?\d+$/.test(text.trim())) return null;
  const { text: words, raw } = readable(policy, part, text.trim());
  return raw === null ? null : `${text.trim()} is ${words}`;
}
