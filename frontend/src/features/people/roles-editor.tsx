import { ActionIcon, Button, NativeSelect, TextInput } from "@mantine/core";
import { Fragment, useId, useRef } from "react";
import type { ActingRole, Level } from "../../api/session/calls";
import { CloseIcon } from "../../shared/people/icons";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import { ChevronIcon } from "../../ui/icons";
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
  error: string | null;
  isDisabled: boolean;
  onChange: (roles: ActingRole[]) => void;
}) {
  const list = useId();
  const box = useRef<HTMLFieldSetElement>(null);
  const put = (index: number, change: Partial<ActingRole>) =>
    onChange(value.map((acting, at) => (at === index ? { ...acting, ...change } : acting)));
  const move = (from: number, to: number) => {
    const roles = value.slice();
    roles.splice(to, 0, ...roles.splice(from, 1));
    onChange(roles);
  };
  const remove = (index: number) => {
    onChange(value.filter((_, at) => at !== index));
    box.current?.querySelector("input")?.focus();
  };
  return (
    <fieldset ref={box} className={styles.editor} disabled={isDisabled}>
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
              onChange={(event) => put(index, { role: event.currentTarget.value })}
            />
            <NativeSelect
              aria-label={`Level of ${named}`}
              value={level}
              data={[...LEVELS]}
              onChange={(event) => put(index, { level: event.currentTarget.value as Level })}
            />
            <span className={styles.moves}>
              <ActionIcon
                className={styles.up ?? ""}
                aria-label={`Move ${named} up`}
                disabled={isDisabled || index === 0}
                onClick={() => move(index, index - 1)}
              >
                <ChevronIcon size={14} />
              </ActionIcon>
              <ActionIcon
                aria-label={`Remove ${named}`}
                disabled={isDisabled || value.length === 1}
                onClick={() => remove(index)}
              >
                <CloseIcon size={14} />
              </ActionIcon>
            </span>
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
