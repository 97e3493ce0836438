import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, dateTime, plural } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Table } from "../../ui/grid/table";
import { SearchIcon } from "../../ui/icons";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { rolesOf } from "./known-roles";
import { NewPersonDialog } from "./new-person-dialog";
import styles from "./people.module.css";
import { Roles, StateOf } from "./person-words";
import { type PersonRow, peopleQuery } from "./queries";

const route = getRouteApi("/people");

/** The people who may sign in. */
export function PeoplePage() {
  useTitle("People");
  const { q = "", act } = route.useSearch();
  const navigate = useNavigate({ from: "/people" });
  const list = useQuery(peopleQuery(q));
  const whyNot = useWhyNot(useCluster(), {});
  const rows = list.data?.rows;
  const setCreating = (open: boolean) =>
    navigate({ search: { q: q || undefined, act: open ? "create" : undefined }, replace: !open });
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
          <TextInput
            size="xs"
            aria-label="Part of the name"
            placeholder="Part of the name"
            leftSection={<SearchIcon size={14} />}
            className={styles.filter ?? ""}
            value={q}
            onChange={(event) =>
              navigate({ search: { q: event.currentTarget.value || undefined }, replace: true })
            }
          />
        }
      >
        {failure && (
          <ErrorNotice error={failure} title="The people could not be listed" onRetry={list.refetch} />
        )}
        {rows ? (
          <Rows rows={rows} isFiltered={q !== ""} />
        ) : (
          !failure && <Loading label="Loading people" rows={4} />
        )}
        {list.data && list.data.total > list.data.rows.length && (
          <p className={styles.rest}>
            {count(list.data.rows.length)} of {plural(list.data.total, "person", "people")} are shown; narrow
            the filter to see others.
          </p>
        )}
      </Panel>
      {act === "create" && rows && (
        <NewPersonDialog known={rolesOf(rows)} onClose={() => setCreating(false)} />
      )}
    </Page>
  );
}

function Rows({ rows, isFiltered }: { rows: readonly PersonRow[]; isFiltered: boolean }) {
  return (
    <Table
      caption="People"
      rows={rows}
      rowKey={({ name }) => name}
      empty={<Empty title={isFiltered ? "No person matches" : "No person yet"} />}
      columns={[
        {
          key: "name",
          header: "Name",
          grow: true,
          cell: ({ name }) => (
            <Link to="/people/$name" params={{ name }} className="topic-link" title={name}>
              {name}
            </Link>
          ),
        },
        { key: "full", header: "Full name", wide: true, cell: ({ display_name: text }) => text || "—" },
        { key: "state", header: "State", cell: (row) => <StateOf person={row} /> },
        { key: "roles", header: "Roles", wide: true, cell: ({ roles }) => <Roles of={roles} /> },
        {
          key: "by",
          header: "Signs in by",
          wide: true,
          cell: ({ provider }) => <>{provider || "password"}</>,
        },
        {
          key: "last",
          header: "Last sign-in",
          wide: true,
          cell: ({ last_sign_in_at: at }) => <>{at === null ? "never" : dateTime(at)}</>,
        },
        {
          key: "sessions",
          header: "Sessions",
          numeric: true,
          cell: ({ sessions }) => count(sessions),
        },
      ]}
    />
  );
}
