import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useId, useRef } from "react";
import { RoleOptions } from "../../shared/access/role-options";
import { LEVELS } from "../../shared/people/level-words";
import { orderedRows, RowButtons } from "../../shared/people/ordered-rows";
import shared from "../../shared/people/people.module.css";
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
  const roleList = useId();
  const rows = orderedRows(value, onChange);
  const remove = (index: number) => {
    rows.remove(index);
    // The button that had the focus is removed with its rule.
    box.current?.querySelector<HTMLElement>("[data-add]")?.focus();
  };
  return (
    <fieldset ref={box} className={`${shared.editor} ${styles.editor}`} disabled={isDisabled}>
      <legend>Rules</legend>
      <p className={styles.dim}>The first rule that matches decides.</p>
      <RoleOptions id={roleList} />
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
              onChange={(event) => rows.put(index, { shown: event.currentTarget.value === "shown" })}
            />
            <NativeSelect
              className={styles.level ?? ""}
              aria-label={`Level of ${name}`}
              value={level}
              data={[ANY_LEVEL, ...LEVELS]}
              onChange={(event) =>
                rows.put(index, { level: event.currentTarget.value as PayloadRule["level"] })
              }
            />
            <RowButtons
              name={name}
              className={styles.moves}
              mayMoveUp={!isDisabled && index > 0}
              mayRemove={!isDisabled}
              onMoveUp={() => rows.moveUp(index)}
              onRemove={() => remove(index)}
            />
            <TextInput
              className={styles.role ?? ""}
              aria-label={`Role of ${name}`}
              placeholder="Every role"
              list={roleList}
              value={role}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              onChange={(event) => rows.put(index, { role: event.currentTarget.value })}
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
              onChange={(event) => rows.put(index, { namespace: event.currentTarget.value })}
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
