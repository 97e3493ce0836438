import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useRef, useState } from "react";
import { CommandLines } from "../../shared/commands/command-lines";
import { PEOPLE_COMMANDS } from "../../shared/commands/people-commands";
import { OneTimeSecretDialog } from "../../shared/people/one-time-secret";
import { refusalsOf } from "../../shared/people/refusals";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { orderText } from "./person-words";
import { createPerson, refreshPeople } from "./queries";
import { NEW_ROLE, RolesEditor, rolesProblem, trimmed } from "./roles-editor";

const LABELS = { name: "The name", display_name: "The full name", roles: "The roles" };

/** Creates a person, whose one-time password is shown once. */
export function NewPersonDialog({ known, onClose }: { known: readonly string[]; onClose: () => void }) {
  const client = useQueryClient();
  const nameField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [displayName, setDisplayName] = useState("");
  const [roles, setRoles] = useState([NEW_ROLE]);
  const [tried, setTried] = useState(false);
  const body = { name: name.trim(), display_name: displayName.trim(), roles: trimmed(roles) };
  const create = useMutation({
    mutationFn: () => createPerson(body),
    onSuccess: () => refreshPeople(client),
    onError: () => nameField.current?.focus(),
  });
  const refusals = refusalsOf(create.error, LABELS);
  const exists = refusals.rest?.status === 409 ? refusals.rest.message : undefined;
  const missingName = body.name === "" ? "Give a name" : null;
  const badRoles = rolesProblem(roles);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missingName) nameField.current?.focus();
    else if (!badRoles && !create.isPending) create.mutate();
  };
  const touch = () => create.error && create.reset();
  if (create.data)
    return (
      <OneTimeSecretDialog
        what="one-time password"
        value={create.data.one_time_password}
        onClose={onClose}
        intro={
          <p>
            <Link to="/people/$name" params={{ name: create.data.person.name }}>
              {create.data.person.name}
            </Link>{" "}
            may sign in with this password, once, and chooses another then.
          </p>
        }
      />
    );
  return (
    <Dialog title="New person" onClose={onClose} closeOnClickOutside={!create.isPending}>
      <form onSubmit={submit} className={styles.dialog} noValidate>
        <TextInput
          ref={nameField}
          label="Name"
          description="For signing in, and in the audit log"
          value={name}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          data-autofocus
          error={refusals.of.name ?? exists ?? (tried ? missingName : null)}
          onChange={(event) => {
            setName(event.currentTarget.value);
            touch();
          }}
        />
        <TextInput
          label="Full name"
          description="May be empty"
          value={displayName}
          autoComplete="off"
          error={refusals.of.display_name}
          onChange={(event) => {
            setDisplayName(event.currentTarget.value);
            touch();
          }}
        />
        <RolesEditor
          value={roles}
          known={known}
          error={refusals.of.roles ?? (tried ? badRoles : null)}
          isDisabled={create.isPending}
          onChange={(next) => {
            setRoles(next);
            touch();
          }}
        />
        <div className={styles.preview} data-preview aria-live="polite">
          {missingName || badRoles ? (
            <span>Complete the form to see what it would do.</span>
          ) : (
            <p>
              <b>{body.name}</b> gets a one-time password and may act as {orderText(body.roles)}.
            </p>
          )}
        </div>
        {refusals.rest && !exists && (
          <ErrorNotice error={create.error} title="It is not known whether the person was created" />
        )}
        {!missingName && !badRoles && <CommandLines of={PEOPLE_COMMANDS.createPerson(body)} />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={create.isPending}>
            Create person
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
