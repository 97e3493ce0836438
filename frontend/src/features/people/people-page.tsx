import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, dateTime } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import type { SortableBy } from "../../ui/grid/sorting";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { rolesOf } from "./known-roles";
import { NewPersonDialog } from "./new-person-dialog";
import styles from "./people.module.css";
import { Roles, StateOf } from "./person-words";
import { PEOPLE_SORTS, PER_PAGE, type PersonRow, peopleQuery } from "./queries";

const route = getRouteApi("/people");

/** The people who may sign in. */
export function PeoplePage() {
  useTitle("People");
  const { q = "", act } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(PEOPLE_SORTS, "name");
  const navigate = useNavigate({ from: "/people" });
  const list = useQuery(peopleQuery(q, sort, page));
  const whyNot = useWhyNot(useCluster(), {});
  const rows = list.data?.rows;
  const setCreating = (open: boolean) =>
    navigate({
      search: (before) => ({ ...before, act: open ? ("create" as const) : undefined }),
      replace: !open,
    });
  const failure = failureOf(list);
  return (
    <Page>
      <PageHead
        title="People"
        badges={list.data && <span className={styles.dim}>{count(list.data.total)}</span>}
        actions={
          <ActionButton disabled={!rows} why={whyNot("createPerson")} onClick={() => setCreating(true)}>
            New person…
          </ActionButton>
        }
      />
      <Panel
        title="All people"
        flush
        actions={
          <>
            <Pages {...turning} total={list.data?.total} per={PER_PAGE} />
            <FilterInput
              label="Part of the name"
              value={q}
              write={(value, replace) => show({ q: value || undefined }, replace)}
            />
          </>
        }
      >
        {failure && (
          <ErrorNotice error={failure} title="The people could not be listed" onRetry={list.refetch} />
        )}
        {rows ? (
          <Rows rows={rows} isFiltered={q !== ""} by={by} />
        ) : (
          !failure && <Loading label="Loading people" rows={4} />
        )}
      </Panel>
      {act === "create" && rows && (
        <NewPersonDialog known={rolesOf(rows)} onClose={() => setCreating(false)} />
      )}
    </Page>
  );
}

function Rows({
  rows,
  isFiltered,
  by,
}: {
  rows: readonly PersonRow[];
  isFiltered: boolean;
  by: SortableBy<(typeof PEOPLE_SORTS)[number]>;
}) {
  return (
    <Table
      caption="People"
      rows={rows}
      rowKey={({ name }) => name}
      empty={<Empty title={isFiltered ? "No person matches" : "No person yet"} />}
      columns={[
        {
          ...by("name"),
          key: "name",
          header: "Name",
          grow: true,
          cell: ({ name }) => (
            <Link to="/people/$name" params={{ name }} className="topic-link" title={name}>
              {name}
            </Link>
          ),
        },
        {
          ...by("display_name"),
          key: "full",
          header: "Full name",
          wide: true,
          cell: ({ display_name: text }) => text || "—",
        },
        { ...by("active", true), key: "state", header: "State", cell: (row) => <StateOf person={row} /> },
        { key: "roles", header: "Roles", wide: true, cell: ({ roles }) => <Roles of={roles} /> },
        {
          ...by("provider"),
          key: "by",
          header: "Signs in by",
          wide: true,
          cell: ({ provider }) => <>{provider || "password"}</>,
        },
        {
          ...by("last_sign_in_at", true),
          key: "last",
          header: "Last sign-in",
          wide: true,
          cell: ({ last_sign_in_at: at }) => <>{at === null ? "never" : dateTime(at)}</>,
        },
        {
          ...by("sessions", true),
          key: "sessions",
          header: "Sessions",
          numeric: true,
          cell: ({ sessions }) => count(sessions),
        },
      ]}
    />
  );
}
