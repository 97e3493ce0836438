import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useSession, viewAs } from "../../api/session/session";
import { failureOf } from "../../lib/errors";
import { plural } from "../../lib/format";
import { parseNamespace, parseTopicName } from "../../lib/url-state";
import { Reasons } from "../../shared/access/reasons";
import { SHOWN } from "../../shared/access/roles-query";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { type ReachRow, roleQuery } from "./queries";
import { RoleTokens } from "./role-tokens";

const route = getRouteApi("/c/$cluster/roles/$role");

/** The page of a role: where it may do what, and why. */
export function RolePage() {
  const { cluster, role } = route.useParams();
  useTitle(role);
  const { q } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(["place"], "place");
  const reach = useQuery(roleQuery(cluster, role, { q, sort, page }));
  const failure = failureOf(reach);
  const answer = reach.data;
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/roles" params={{ cluster }}>
              Roles
            </Link>
          </Crumb>
        }
        title={
          <>
            {role}
            <Copy value={role} what="the role" />
          </>
        }
        badges={answer?.pattern && <Badge>pattern</Badge>}
        actions={answer && !answer.pattern && <ViewAs role={role} />}
      />
      {answer?.judged === false && (
        <Notice tone="info">
          <p>Authorization is off: everybody may do everything, whatever is granted.</p>
        </Notice>
      )}
      <Panel
        title="What this role can do"
        note={answer && plural(answer.total, "place")}
        flush
        actions={
          <>
            <Pages {...turning} total={answer?.total} per={SHOWN} />
            <FilterInput
              label="Part of the place"
              value={q ?? ""}
              write={(value, replace) => show({ q: value || undefined }, replace)}
            />
          </>
        }
      >
        {failure && (
          <ErrorNotice error={failure} title="The rights could not be read" onRetry={reach.refetch} />
        )}
        {answer ? (
          <Table<ReachRow>
            caption={`Places where ${role} may do something`}
            rows={answer.rows}
            rowKey={({ kind, resource }) => `${kind} ${resource}`}
            empty={<Empty title={q ? "No place matches" : "Nothing that you may see"} />}
            columns={[
              {
                ...by("place"),
                key: "place",
                header: "Where",
                cell: (row) => <Where cluster={cluster} row={row} />,
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
      </Panel>
      {answer && !answer.pattern && <RoleTokens cluster={cluster} role={role} />}
    </Page>
  );
}

/** The place of a right, as a link to its page. */
function Where({ cluster, row }: { cluster: string; row: ReachRow }) {
  const { kind, tenant, namespace, topic, resource } = row;
  if (kind === "tenant")
    return (
      <Link to="/c/$cluster/tenants/$tenant" params={{ cluster, tenant }} className="topic-link">
        {tenant}
      </Link>
    );
  if (kind === "namespace") {
    const params = { cluster, ...parseNamespace(`${tenant}/${namespace}`) };
    return (
      <Link to="/c/$cluster/tenants/$tenant/$namespace" params={params} className="topic-link">
        {tenant}/{namespace}
      </Link>
    );
  }
  const name = kind === "topic" ? parseTopicName(topic) : null;
  if (name === null) return <span>{kind === "cluster" ? "the whole cluster" : resource}</span>;
  const { domain, ...params } = name;
  return (
    <Link
      to="/c/$cluster/t/$tenant/$namespace/$topic/access"
      params={{ cluster, ...params }}
      search={domain === "persistent" ? {} : { domain }}
      className="topic-link"
    >
      {name.tenant}/{name.namespace}/{name.topic}
    </Link>
  );
}

/** Shows the console as the role sees it: for superusers whose own role acts, with all of its rights. */
function ViewAs({ role }: { role: string }) {
  const person = useSession().session?.person ?? null;
  const navigate = useNavigate();
  const view = useMutation({ mutationFn: () => viewAs(role), onSuccess: () => navigate({ to: "/" }) });
  if (person?.method !== "session" || !person.superuser || person.level !== "full" || person.viewing_as)
    return null;
  return (
    <>
      {view.error && (
        <span role="alert" lang="en">
          {view.error.message}
        </span>
      )}
      <Button variant="default" loading={view.isPending} onClick={() => view.mutate()}>
        View as this role
      </Button>
    </>
  );
}
