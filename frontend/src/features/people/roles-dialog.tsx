import { TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { PEOPLE_COMMANDS } from "../../shared/commands/people-commands";
import facts from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { rolesOf } from "./known-roles";
import { orderText } from "./person-words";
import {
  changePerson,
  type PersonChange,
  type PersonRow,
  peopleQuery,
  previewOf,
  refreshPeople,
} from "./queries";
import { RolesEditor, rolesProblem, trimmed } from "./roles-editor";

/** Changes what a person may act as, and the full name. */
export function RolesDialog({ person, onClose }: { person: PersonRow; onClose: () => void }) {
  const client = useQueryClient();
  const known = rolesOf(useQuery(peopleQuery("")).data?.rows ?? []);
  const [displayName, setDisplayName] = useState(person.display_name);
  const [roles, setRoles] = useState(person.roles);
  const problem = rolesProblem(roles);
  const { name, provider } = person;
  const wanted: PersonChange | null = problem
    ? null
    : { display_name: displayName.trim(), roles: trimmed(roles), active: person.active };
  return (
    <ChangeDialog
      title="Edit person"
      target={<b>{name}</b>}
      what="person"
      id={["person", name]}
      wanted={wanted}
      form={(isDisabled, refusal) => (
        <>
          <TextInput
            label="Full name"
            description="May be empty"
            value={displayName}
            autoComplete="off"
            disabled={isDisabled}
            onChange={(event) => setDisplayName(event.currentTarget.value)}
          />
          {provider === "" ? (
            <RolesEditor
              value={roles}
              known={known}
              error={refusal ?? problem}
              isDisabled={isDisabled}
              onChange={setRoles}
            />
          ) : (
            <p>The groups at {provider} decide about the roles.</p>
          )}
        </>
      )}
      ask={(change) => previewOf(name, change)}
      apply={(token) => changePerson(name, JSON.parse(token))}
      preview={(change, { before, token }) =>
        token === null ? (
          <p>Nothing would change.</p>
        ) : (
          <dl className={facts.facts}>
            {orderText(before.roles) !== orderText(change.roles) && (
              <>
                <Fact label="Roles now">{orderText(before.roles)}</Fact>
                <Fact label="Roles then">{orderText(change.roles)}</Fact>
                <Fact label="Takes effect">
                  {before.sessions === 0
                    ? "at the next sign-in"
                    : `within seconds in ${plural(before.sessions, "open session")}`}
                </Fact>
              </>
            )}
            {before.display_name !== (change.display_name ?? "") && (
              <Fact label="Full name then">{change.display_name || "none"}</Fact>
            )}
          </dl>
        )
      }
      receipt={(change) => (
        <p>
          {name} may act as {orderText(change.roles)}.
        </p>
      )}
      label={() => "Save"}
      commands={(change) => PEOPLE_COMMANDS.changePerson(name, change)}
      onChanged={() => refreshPeople(client)}
      onClose={onClose}
    />
  );
}
