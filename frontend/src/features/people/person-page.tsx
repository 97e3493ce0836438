import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { dateTime } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { LEVEL_WORDS } from "../../shared/people/level-words";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Fact } from "../../ui/fact";
import { Table } from "../../ui/grid/table";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./people.module.css";
import { ActiveDialog, DeleteDialog, ResetDialog } from "./person-dialogs";
import { PersonSessions } from "./person-sessions";
import { StateOf } from "./person-words";
import { type PersonRow, personQuery } from "./queries";
import { RolesDialog } from "./roles-dialog";

const route = getRouteApi("/people/$name");
type Act = "roles" | "reset" | "active" | "delete";

/** The page of a person: its roles, its sessions, and whether it may sign in. */
export function PersonPage() {
  const { name } = route.useParams();
  useTitle(name);
  const found = useQuery(personQuery(name));
  const failure = failureOf(found);
  const person = found.data;
  const [act, setAct] = useState<Act | null>(null);
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/people">People</Link>
          </Crumb>
        }
        title={name}
        badges={person && <StateOf person={person} />}
        actions={person && <Actions person={person} onAct={setAct} />}
      >
        {person?.display_name && <p className={styles.dim}>{person.display_name}</p>}
      </PageHead>
      {failure && (
        <ErrorNotice error={failure} title="The person could not be read" onRetry={found.refetch} />
      )}
      {person ? (
        <Details person={person} onEdit={() => setAct("roles")} />
      ) : (
        !failure && <Loading label="Loading the person" rows={6} />
      )}
      {person && act && <Acting act={act} person={person} onClose={() => setAct(null)} />}
    </Page>
  );
}

function Actions({ person, onAct }: { person: PersonRow; onAct: (act: Act) => void }) {
  const whyNot = useWhyNot(useCluster(), {});
  return (
    <>
      {person.provider === "" && (
        <ActionButton variant="default" why={whyNot("resetPassword")} onClick={() => onAct("reset")}>
          Reset password…
        </ActionButton>
      )}
      <ActionButton variant="default" why={whyNot("changePerson")} onClick={() => onAct("active")}>
        {person.active ? "Deactivate…" : "Activate…"}
      </ActionButton>
      <ActionButton variant="default" why={whyNot("deletePerson")} onClick={() => onAct("delete")}>
        Delete…
      </ActionButton>
    </>
  );
}

function Acting({ act, person, onClose }: { act: Act; person: PersonRow; onClose: () => void }) {
  const navigate = useNavigate();
  if (act === "roles") return <RolesDialog person={person} onClose={onClose} />;
  if (act === "reset") return <ResetDialog person={person} onClose={onClose} />;
  if (act === "active") return <ActiveDialog person={person} onClose={onClose} />;
  return <DeleteDialog person={person} onClose={onClose} onDone={() => navigate({ to: "/people" })} />;
}

function Details({ person, onEdit }: { person: PersonRow; onEdit: () => void }) {
  const whyNot = useWhyNot(useCluster(), {});
  return (
    <>
      <Panel title="Sign-in">
        <dl className={styles.facts}>
          <Fact label="Signs in by">{person.provider || "password"}</Fact>
          <Fact label="Last sign-in">
            {person.last_sign_in_at === null ? "never" : dateTime(person.last_sign_in_at)}
          </Fact>
          <Fact label="Created">{dateTime(person.created_at)}</Fact>
        </dl>
      </Panel>
      <Panel
        title="Roles"
        note={person.provider ? `By its groups at ${person.provider}` : "In the order of choice"}
        flush
        actions={
          <ActionButton variant="default" why={whyNot("changePerson")} onClick={onEdit}>
            Edit…
          </ActionButton>
        }
      >
        <Table
          caption="Roles"
          rows={person.roles}
          rowKey={({ role }) => role}
          empty={<Empty title="No role: the person cannot sign in" />}
          columns={[
            { key: "role", header: "Role", grow: true, cell: ({ role }) => <span title={role}>{role}</span> },
            { key: "level", header: "Level", cell: ({ level }) => level },
            { key: "means", header: "What it allows", wide: true, cell: ({ level }) => LEVEL_WORDS[level] },
          ]}
        />
      </Panel>
      <PersonSessions name={person.name} />
    </>
  );
}
