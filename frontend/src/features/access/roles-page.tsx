import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count } from "../../lib/format";
import { RoleLink } from "../../shared/access/role-link";
import { ROLE_SORTS, rolesQuery, SHOWN } from "../../shared/access/roles-query";
import { Badge } from "../../ui/badge";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import type { RoleRow } from "./queries";
import styles from "./roles.module.css";

const route = getRouteApi("/c/$cluster/roles");
const COUNTS = [
  ["tenants", "Tenants"],
  ["namespaces", "Namespaces"],
  ["grants", "Grants"],
] as const;

/** The roles that administrators, grants and settings name. */
export function RolesPage() {
  useTitle("Roles");
  const { cluster } = route.useParams();
  const { q = "" } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(ROLE_SORTS, "role");
  const list = useQuery(rolesQuery(cluster, q, sort, page));
  const failure = failureOf(list);
  const rows = list.data?.rows;
  return (
    <Page>
      <PageHead
        title="Roles"
        badges={list.data && <span className={styles.dim}>{count(list.data.total)}</span>}
      />
      {list.data?.judged === false && (
        <Notice tone="info">
          <p>Authorization is off: everybody may do everything, whatever is granted.</p>
        </Notice>
      )}
      <Panel
        title="Roles that lists and grants name"
        flush
        actions={
          <>
            <Pages {...turning} total={list.data?.total} per={SHOWN} />
            <FilterInput
              label="Part of the name"
              value={q}
              write={(value, replace) => show({ q: value || undefined }, replace)}
            />
          </>
        }
      >
        {failure && (
          <ErrorNotice error={failure} title="The roles could not be listed" onRetry={list.refetch} />
        )}
        {rows ? (
          <Table<RoleRow>
            caption="Roles"
            rows={rows}
            rowKey={({ role }) => role}
            empty={<Empty title={q ? "No role matches" : "No role that you may see"} />}
            columns={[
              {
                ...by("role"),
                key: "role",
                header: "Role",
                grow: true,
                cell: ({ role }) => <RoleLink cluster={cluster} role={role} />,
              },
              { key: "kind", header: "Kind", cell: (row) => <Kind of={row} /> },
              ...COUNTS.map(([key, header]) => ({
                ...by(key, true),
                key,
                header,
                numeric: true,
                wide: true,
                cell: (row: RoleRow) => count(row[key]),
              })),
            ]}
          />
        ) : (
          !failure && <Loading label="Loading roles" rows={6} />
        )}
      </Panel>
    </Page>
  );
}

function Kind({ of }: { of: RoleRow }) {
  if (of.superuser) return <Badge tone="accent">{of.proxy ? "superuser, proxy" : "superuser"}</Badge>;
  if (of.proxy) return <Badge tone="accent">proxy</Badge>;
  if (of.pattern) return <Badge>pattern</Badge>;
  return of.tenants > 0 ? <Badge>tenant admin</Badge> : <span className={styles.dim}>by grants</span>;
}
