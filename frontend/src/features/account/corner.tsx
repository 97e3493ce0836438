import { Popover } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Person } from "../../api/session/calls";
import { actAs, signOut } from "../../api/session/session";
import { hasSession, roleText } from "../../shared/people/level-words";
import { CheckIcon } from "../../ui/icons";
import { ErrorNotice } from "../../ui/states";
import styles from "./account.module.css";
import { ViewAsDialog } from "./view-as-dialog";

/** The user of the console with the present role, and a menu to change them. */
export function Corner({ person }: { person: Person }) {
  const [opened, setOpened] = useState(false);
  const [choosesRole, setChoosesRole] = useState(false);
  const name = person.display_name || person.name;
  return (
    <>
      <Popover
        opened={opened}
        onChange={setOpened}
        position="bottom-end"
        trapFocus
        returnFocus
        transitionProps={{ duration: 0 }}
        withinPortal
      >
        <Popover.Target>
          <button type="button" className={styles.corner} onClick={() => setOpened(!opened)}>
            <span className="visually-hidden">Account of</span>{" "}
            <span className={styles.who}>
              <b>{name}</b> <span>{actingText(person)}</span>
            </span>
            <span className={styles.initials} aria-hidden="true">
              {initialsOf(name)}
            </span>
          </button>
        </Popover.Target>
        <Popover.Dropdown aria-label="Account" className={styles.menu}>
          <Menu
            person={person}
            close={() => setOpened(false)}
            viewAs={() => {
              setOpened(false);
              setChoosesRole(true);
            }}
          />
        </Popover.Dropdown>
      </Popover>
      {choosesRole && <ViewAsDialog onClose={() => setChoosesRole(false)} />}
    </>
  );
}

function Menu({ person, close, viewAs }: { person: Person; close: () => void; viewAs: () => void }) {
  const act = useMutation({ mutationFn: actAs, onSuccess: close });
  const leave = useMutation({ mutationFn: signOut });
  const error = act.error ?? leave.error;
  const { roles, viewing_as: viewed } = person;
  return (
    <>
      <div className={styles.menuHead}>
        <b>{person.display_name || person.name}</b>
        <p className={styles.dim}>
          {person.name}, {actingText(person)}
        </p>
      </div>
      {error && (
        <ErrorNotice error={error} title={act.error ? "The role was not changed" : "Still signed in"} />
      )}
      {roles.length > 0 && (
        <div className={styles.group} role="group" aria-label="Act as">
          <h2>Act as</h2>
          {roles.map((acting) => {
            const isCurrent = viewed === null && acting.role === person.role;
            return (
              <button
                key={acting.role}
                type="button"
                className={styles.item}
                aria-current={isCurrent || undefined}
                disabled={act.isPending}
                onClick={() => (isCurrent ? close() : act.mutate(acting.role))}
              >
                {acting.role}
                <small>{acting.level}</small>
                {isCurrent && <CheckIcon size={14} />}
              </button>
            );
          })}
          {person.superuser && (
            <button type="button" className={styles.item} onClick={viewAs}>
              View as a role…
            </button>
          )}
        </div>
      )}
      <div className={styles.group}>
        {hasSession(person) && (
          <Link to="/account" className={styles.item} onClick={close}>
            Sessions, password and tokens
          </Link>
        )}
        {hasSession(person) ? (
          <button
            type="button"
            className={styles.item}
            disabled={leave.isPending}
            onClick={() => leave.mutate()}
          >
            Sign out
          </button>
        ) : (
          <a href="/sign-in" className={styles.item}>
            Sign in as a person
          </a>
        )}
      </div>
    </>
  );
}

export function actingText({ role, level, viewing_as: viewed }: Person): string {
  return viewed === null ? `acting as ${roleText({ role, level })}` : `viewing as ${viewed}`;
}

/** Two letters of a name: "Ada Lovelace" → "AL", "ops" → "OP". */
export function initialsOf(name: string): string {
  const words = name.split(/[\s._@-]+/).filter(Boolean);
  const letters =
    words.length > 1 ? words.slice(0, 2).map((word) => [...word][0]) : [...(words[0] ?? "?")].slice(0, 2);
  return letters.join("").toUpperCase();
}
