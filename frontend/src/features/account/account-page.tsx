import { Button } from "@mantine/core";
import { useState } from "react";
import type { Person } from "../../api/session/calls";
import { useSession } from "../../api/session/session";
import { dateTime } from "../../lib/format";
import { hasSession, LEVEL_WORDS } from "../../shared/people/level-words";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./account.module.css";
import { OwnSessions } from "./own-sessions";
import { OwnTokens } from "./own-tokens";
import { PasswordDialog } from "./password-dialog";

/** The page of a person's own account. */
export function AccountPage() {
  useTitle("Account");
  const person = useSession().session?.person;
  if (!person || !hasSession(person))
    return (
      <Page>
        <PageHead title="Account" />
        <Panel title="No session">
          <Empty title="You did not sign in as a person">
            Sessions, passwords and personal tokens are those of people who sign in to the console.
          </Empty>
        </Panel>
      </Page>
    );
  return <Account person={person} />;
}

function Account({ person }: { person: Person }) {
  const [changesPassword, setChangesPassword] = useState(false);
  return (
    <Page>
      <PageHead
        title={person.display_name || person.name}
        badges={person.superuser && <Badge tone="accent">superuser</Badge>}
        freshness={
          person.ends_at && <span className={styles.dim}>Signed in until {dateTime(person.ends_at)}</span>
        }
        actions={
          person.may_change_password && (
            <Button variant="default" onClick={() => setChangesPassword(true)}>
              Change password…
            </Button>
          )
        }
      />
      <Panel title="Roles" note="A superuser assigns them" flush>
        <Table
          caption="Roles"
          rows={person.roles}
          rowKey={({ role }) => role}
          empty={<Empty title="No role" />}
          columns={[
            { key: "role", header: "Role", grow: true, cell: ({ role }) => <span title={role}>{role}</span> },
            { key: "level", header: "Level", cell: ({ level }) => level },
            { key: "means", header: "What it allows", wide: true, cell: ({ level }) => LEVEL_WORDS[level] },
            {
              key: "now",
              header: "State",
              headerHidden: true,
              cell: ({ role }) =>
                role === person.role && person.viewing_as === null && <Badge tone="accent">Acting</Badge>,
            },
          ]}
        />
      </Panel>
      <OwnSessions />
      <OwnTokens person={person} />
      {changesPassword && <PasswordDialog name={person.name} onClose={() => setChangesPassword(false)} />}
    </Page>
  );
}
