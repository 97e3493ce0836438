import { ActionIcon, Button, NativeSelect, TextInput } from "@mantine/core";
import { useRef } from "react";
import { CloseIcon } from "../../shared/people/icons";
import { LEVELS } from "../../shared/people/level-words";
import { ChevronIcon } from "../../ui/icons";
import styles from "./payloads.module.css";
import type { PayloadRule } from "./queries";
import { isPattern, NEW_RULE } from "./rule-words";

const RULES_MAX = 500;
const EFFECTS = [
  { value: "hidden", label: "Hidden" },
  { value: "shown", label: "Shown" },
];
const ANY_LEVEL = { value: "", label: "Any level" };

/** The rules, in the order in which they are tried. */
export function RulesEditor({
  value,
  error,
  isDisabled,
  onChange,
}: {
  value: readonly PayloadRule[];
  error: string | null;
  isDisabled: boolean;
  onChange: (rules: PayloadRule[]) => void;
}) {
  const box = useRef<HTMLFieldSetElement>(null);
  const put = (index: number, change: Partial<PayloadRule>) =>
    onChange(value.map((rule, at) => (at === index ? { ...rule, ...change } : rule)));
  const move = (from: number, to: number) => {
    const rules = value.slice();
    rules.splice(to, 0, ...rules.splice(from, 1));
    onChange(rules);
  };
  const remove = (index: number) => {
    onChange(value.filter((_, at) => at !== index));
    // The button that had the focus is removed with its rule.
    box.current?.querySelector<HTMLElement>("[data-add]")?.focus();
  };
  return (
    <fieldset ref={box} className={styles.editor} disabled={isDisabled}>
      <legend>Rules</legend>
      <p className={styles.dim}>The first rule that matches decides.</p>
      {value.map(({ role, level, namespace, shown }, index) => {
        const name = `rule ${index + 1}`;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a rule has no identity but its place
          <div key={index} className={styles.rule}>
            <span className={styles.dim}>{index + 1}.</span>
            <NativeSelect
              aria-label={`Effect of ${name}`}
              value={shown ? "shown" : "hidden"}
              data={EFFECTS}
              onChange={(event) => put(index, { shown: event.currentTarget.value === "shown" })}
            />
            <NativeSelect
              className={styles.level ?? ""}
              aria-label={`Level of ${name}`}
              value={level}
              data={[ANY_LEVEL, ...LEVELS]}
              onChange={(event) => put(index, { level: event.currentTarget.value as PayloadRule["level"] })}
            />
            <span className={styles.moves}>
              <ActionIcon
                className={styles.up ?? ""}
                aria-label={`Move ${name} up`}
                disabled={isDisabled || index === 0}
                onClick={() => move(index, index - 1)}
              >
                <ChevronIcon size={14} />
              </ActionIcon>
              <ActionIcon aria-label={`Remove ${name}`} disabled={isDisabled} onClick={() => remove(index)}>
                <CloseIcon size={14} />
              </ActionIcon>
            </span>
            <TextInput
              className={styles.role ?? ""}
              aria-label={`Role of ${name}`}
              placeholder="Every role"
              value={role}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              onChange={(event) => put(index, { role: event.currentTarget.value })}
            />
            <TextInput
              className={styles.namespace ?? ""}
              aria-label={`Namespace of ${name}`}
              placeholder="tenant/namespace, tenant/* or *"
              value={namespace}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              error={error !== null && !isPattern(namespace.trim())}
              onChange={(event) => put(index, { namespace: event.currentTarget.value })}
            />
          </div>
        );
      })}
      {error && (
        <p className={styles.error} role="alert">
          {error}
        </p>
      )}
      <div>
        <Button
          variant="default"
          data-add
          disabled={isDisabled || value.length >= RULES_MAX}
          onClick={() => onChange([...value, NEW_RULE])}
        >
          Add rule
        </Button>
      </div>
    </fieldset>
  );
}
