import { useQuery } from "@tanstack/react-query";
import { useSession } from "../../api/session/session";
import { failureOf } from "../../lib/errors";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import styles from "./access.module.css";
import { GrantsPanel } from "./grants/grants-panel";
import { mayQuery, type Place } from "./may";
import { accessQuery } from "./queries";
import { Reasons } from "./reasons";
import { RoleLink } from "./role-link";

const TABLE_PX = 480;

/**
 * The roles with rights at a place, what gives them, and its grants. `isPage`: it stands alone, so that it says also why
 * it shows nothing.
 */
export function AccessPanel({ cluster, place, isPage }: { cluster: string; place: Place; isPage?: boolean }) {
  const { session } = useSession();
  const isJudged = Boolean(session?.authorization && session.person);
  const may = useQuery({ ...mayQuery(cluster, place), enabled: isJudged });
  if (session && !session.authorization)
    return (
      <Notice tone="info">
        <p>Authorization is off: everybody may do everything.</p>
      </Notice>
    );
  if (!isJudged) return null;
  const answer = may.data?.getAccess;
  if (!may.data)
    return isPage ? (
      may.error ? (
        <ErrorNotice error={may.error} title="The rights could not be read" onRetry={may.refetch} />
      ) : (
        <Loading label="Loading the rights" rows={4} />
      )
    ) : null;
  if (answer && !answer.allowed)
    return isPage ? (
      <Notice tone="info">
        <p lang="en">{answer.why}</p>
      </Notice>
    ) : null;
  return (
    <div className={styles.stack}>
      <GrantsPanel cluster={cluster} place={place} why={may.data.changeGrant?.why || null} />
      <WhoCan cluster={cluster} place={place} />
    </div>
  );
}

function WhoCan({ cluster, place }: { cluster: string; place: Place }) {
  const access = useQuery(accessQuery(cluster, place));
  const failure = failureOf(access);
  return (
    <Panel title="Who can do what here, and why" flush>
      {failure && (
        <ErrorNotice error={failure} title="The rights could not be read" onRetry={access.refetch} />
      )}
      {access.data ? (
        <Table
          caption="Roles with rights here"
          rows={access.data.rows}
          rowKey={({ role }) => role}
          maxHeight={TABLE_PX}
          empty={<Empty title="No role has a right here" />}
          columns={[
            {
              key: "role",
              header: "Role",
              cell: ({ role, pattern }) => (
                <>
                  <RoleLink cluster={cluster} role={role} />
                  {pattern && (
                    <>
                      {" "}
                      <Badge>pattern</Badge>
                    </>
                  )}
                </>
              ),
            },
            {
              key: "may",
              header: "May, and why",
              grow: true,
              cell: ({ actions }) => <Reasons of={actions} />,
            },
          ]}
        />
      ) : (
        !failure && <Loading label="Loading the rights" rows={4} />
      )}
      {access.data?.prefixed && (
        <p className={styles.dim}>The name of a subscription must begin with the role that uses it.</p>
      )}
    </Panel>
  );
}
