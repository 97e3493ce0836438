import { TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { PEOPLE_COMMANDS } from "../../shared/commands/people-commands";
import { OneTimeSecret } from "../../shared/people/one-time-secret";
import {
  changePerson,
  deletePerson,
  type PersonChange,
  type PersonRow,
  previewOf,
  refreshPeople,
  resetPassword,
} from "./queries";

interface Props {
  person: PersonRow;
  onClose: () => void;
}

const endingText = (sessions: number) =>
  sessions === 0
    ? "No session is open."
    : `${plural(sessions, "open session")} ${sessions === 1 ? "ends" : "end"} at once.`;

/** Deactivates a person, or lets the person sign in again. */
export function ActiveDialog({ person, onClose }: Props) {
  const client = useQueryClient();
  const { name, display_name, roles } = person;
  // As it was when the dialog opened: what is confirmed does not turn round meanwhile.
  const [wanted] = useState<PersonChange>({ display_name, roles, active: !person.active });
  const verb = wanted.active ? "Activate" : "Deactivate";
  return (
    <ChangeDialog
      title={wanted.active ? "Activate person" : "Deactivate person"}
      target={<b>{name}</b>}
      what="person"
      id={["person", name]}
      wanted={wanted}
      ask={(change) => previewOf(name, change)}
      apply={(token) => changePerson(name, JSON.parse(token))}
      preview={(_, { before }) => (
        <p>
          {wanted.active
            ? `${name} may sign in again, with the same password and roles.`
            : `${name} cannot sign in any more. ${endingText(before.sessions)} Personal tokens are refused, too.`}
        </p>
      )}
      receipt={() => <p>{wanted.active ? `${name} may sign in.` : `${name} is deactivated.`}</p>}
      label={() => verb}
      red={!wanted.active}
      commands={(change) => PEOPLE_COMMANDS.changePerson(name, change)}
      onChanged={() => refreshPeople(client)}
      onClose={onClose}
    />
  );
}

/** Replaces a person's password by one for the next sign-in, which is shown once. */
export function ResetDialog({ person, onClose }: Props) {
  const client = useQueryClient();
  const { name } = person;
  return (
    <ChangeDialog
      title="Reset password"
      target={<b>{name}</b>}
      what="person"
      id={["password", name]}
      wanted={name}
      ask={() => previewOf(name, null)}
      apply={() => resetPassword(name)}
      preview={(_, { before }) => (
        <p>
          {name} gets a one-time password, which you hand over; the present one ceases to work.{" "}
          {endingText(before.sessions)}
        </p>
      )}
      receipt={(_, password) => (
        <>
          <p>{name} may sign in with this password, once, and chooses another then.</p>
          <OneTimeSecret what="one-time password" value={password} />
        </>
      )}
      label={() => "Reset password"}
      red
      commands={() => PEOPLE_COMMANDS.resetPassword(name)}
      onChanged={() => refreshPeople(client)}
      onClose={onClose}
    />
  );
}

/** Deletes a person, once its name was typed. */
export function DeleteDialog({ person, onClose, onDone }: Props & { onDone: () => void }) {
  const client = useQueryClient();
  const [typed, setTyped] = useState("");
  const { name } = person;
  return (
    <ChangeDialog
      title="Delete person"
      target={<b>{name}</b>}
      what="person"
      id={["deletion", name]}
      wanted={typed === name ? name : null}
      form={(isDisabled) => (
        <TextInput
          label={`Type ${name} to delete the person`}
          value={typed}
          autoComplete="off"
          spellCheck={false}
          data-autofocus
          disabled={isDisabled}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
      )}
      ask={() => previewOf(name, null)}
      apply={() => deletePerson(name)}
      preview={(_, { before }) => (
        <p>
          {name} cannot sign in any more, and this cannot be undone. {endingText(before.sessions)} What the
          audit log has of {name} stays. To keep the name taken, deactivate the person instead.
        </p>
      )}
      receipt={() => <p>{name} is deleted.</p>}
      label={() => "Delete person"}
      red
      losesData={() => true}
      commands={() => PEOPLE_COMMANDS.deletePerson(name)}
      onChanged={() => client.invalidateQueries({ queryKey: ["people", "list"] })}
      onClose={(isDone) => (isDone ? onDone() : onClose())}
    />
  );
}
