import { Button, NativeSelect, TextInput } from "@mantine/core";
import { Fragment, type ReactNode, useId, useRef } from "react";
import type { ActingRole, Level } from "../../api/session/calls";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import { orderedRows, RowButtons } from "../../shared/people/ordered-rows";
import shared from "../../shared/people/people.module.css";
import styles from "./people.module.css";

export const NEW_ROLE: ActingRole = { role: "", level: "read" };
const ROLES_MAX = 50;

/** The roles of a person, in the order of choice. */
export function RolesEditor({
  value,
  known,
  error,
  isDisabled,
  onChange,
}: {
  value: readonly ActingRole[];
  /** Roles that are proposed. */
  known: readonly string[];
  error: ReactNode;
  isDisabled: boolean;
  onChange: (roles: ActingRole[]) => void;
}) {
  const list = useId();
  const box = useRef<HTMLFieldSetElement>(null);
  const rows = orderedRows(value, onChange);
  const remove = (index: number) => {
    rows.remove(index);
    box.current?.querySelector("input")?.focus();
  };
  return (
    <fieldset ref={box} className={`${shared.editor} ${styles.editor}`} disabled={isDisabled}>
      <legend>Roles</legend>
      <p className={styles.dim}>The person acts as the first, and may switch to the others.</p>
      <dl className={styles.levels}>
        {LEVELS.map((level) => (
          <Fragment key={level}>
            <dt>{level}</dt>
            <dd>{LEVEL_WORDS[level]}</dd>
          </Fragment>
        ))}
      </dl>
      <datalist id={list}>
        {known.map((role) => (
          <option key={role} value={role} />
        ))}
      </datalist>
      {value.map(({ role, level }, index) => {
        const named = role || `role ${index + 1}`;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a row has no identity but its place
          <div key={index} className={styles.row}>
            <span className={styles.dim}>{index + 1}.</span>
            <TextInput
              aria-label={`Role ${index + 1}`}
              value={role}
              list={list}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              error={error !== null && (role.trim() === "" || isTwice(role, value))}
              onChange={(event) => rows.put(index, { role: event.currentTarget.value })}
            />
            <NativeSelect
              aria-label={`Level of ${named}`}
              value={level}
              data={[...LEVELS]}
              onChange={(event) => rows.put(index, { level: event.currentTarget.value as Level })}
            />
            <RowButtons
              name={named}
              mayMoveUp={!isDisabled && index > 0}
              mayRemove={!isDisabled && value.length > 1}
              onMoveUp={() => rows.moveUp(index)}
              onRemove={() => remove(index)}
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
          disabled={isDisabled || value.length >= ROLES_MAX}
          onClick={() => onChange([...value, NEW_ROLE])}
        >
          Add role
        </Button>
      </div>
    </fieldset>
  );
}

function isTwice(role: string, roles: readonly ActingRole[]): boolean {
  return roles.filter((other) => other.role.trim() === role.trim()).length > 1;
}

/** The reason why roles are not complete; null when they are. */
export function rolesProblem(roles: readonly ActingRole[]): string | null {
  if (roles.some(({ role }) => role.trim() === "")) return "Give each role a name";
  const twice = roles.find(({ role }) => isTwice(role, roles));
  return twice ? `The role ${twice.role.trim()} is listed twice` : null;
}

export function trimmed(roles: readonly ActingRole[]): ActingRole[] {
  return roles.map(({ role, level }) => ({ role: role.trim(), level }));
}
