import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { SchemaStrategy, SchemaVersions } from "../../api/types";
import { bytes, count, dateTime, known, plural } from "../../lib/format";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import styles from "./schema.module.css";
import type { Users } from "./users";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/schema");

type Row = SchemaVersions["versions"][number];

/** A page of versions, newest first, with the number of attached clients of each. */
export function VersionsPanel({
  listed,
  newest,
  users,
  shown,
  actions,
}: {
  listed: SchemaVersions;
  newest: SchemaVersions;
  users: Map<number | null, Users>;
  shown: number | null;
  actions: ReactNode;
}) {
  const numeric = (what: keyof Users) => ({
    key: what,
    header: what === "producers" ? "Producers" : "Consumers",
    numeric: true,
    cell: ({ version }: Row) => count(users.get(version)?.[what].length ?? 0),
  });
  return (
    <Panel title="Versions" note={plural(newest.total, "version")} actions={actions} flush>
      <Table<Row>
        caption="Versions of the schema, newest first"
        maxHeight={480}
        rows={listed.versions}
        rowKey={({ version }) => version}
        empty={<Empty title="No older versions" />}
        columns={[
          {
            key: "version",
            header: "Version",
            cell: ({ version }) => (
              <Link
                to="."
                search={(before: object) => ({ ...before, version, with: undefined })}
                resetScroll={false}
                className={styles.version}
                aria-current={version === shown ? "true" : undefined}
                aria-label={`Version ${version}`}
              >
                {version}
              </Link>
            ),
          },
          numeric("producers"),
          numeric("consumers"),
          {
            key: "registered",
            header: "Registered",
            cell: ({ registered }) => known(registered, dateTime),
          },
          {
            key: "type",
            header: "Type",
            cell: ({ type, reason }) =>
              reason === null ? <Badge>{type}</Badge> : <Badge tone="bad">cannot be read</Badge>,
          },
          { key: "size", header: "Size", numeric: true, cell: ({ size }) => known(size, bytes) },
        ]}
      />
      <Pages listed={listed} newest={newest} />
      <p className={styles.foot}>
        <Strategy strategy={newest.strategy} />
        <Without users={users.get(null)} />
      </p>
    </Panel>
  );
}

/** Ways to the versions that are not listed. */
function Pages({ listed, newest }: { listed: SchemaVersions; newest: SchemaVersions }) {
  const { before } = route.useSearch();
  const last = listed.versions.at(-1)?.version;
  const isOldest = listed.versions.length < PAGE;
  if (before === undefined && newest.total <= listed.versions.length) return null;
  return (
    <nav aria-label="Pages of versions" className={styles.pages}>
      {before !== undefined && (
        <Link to="." search={(search: object) => ({ ...search, before: undefined })} resetScroll={false}>
          Newest versions
        </Link>
      )}
      {last !== undefined && !isOldest && (
        <Link to="." search={(search: object) => ({ ...search, before: last })} resetScroll={false}>
          Older than {last}
        </Link>
      )}
    </nav>
  );
}

const PAGE = 50;

const LEVELS: Record<SchemaStrategy["level"], string> = {
  topic: "set on this topic",
  global: "set on this topic in all clusters",
  namespace: "set on the namespace",
  broker: "the brokers’ own setting",
};

/** "Compatibility FULL, set on the namespace" */
export function Strategy({ strategy }: { strategy: SchemaStrategy }) {
  return (
    <span>
      Compatibility <b className="mono">{strategy.value}</b>, {LEVELS[strategy.level]}.
    </span>
  );
}

function Without({ users }: { users: Users | undefined }) {
  if (!users) return null;
  const { producers, consumers } = users;
  const parts = [
    producers.length > 0 && plural(producers.length, "producer"),
    consumers.length > 0 && plural(consumers.length, "consumer"),
  ].filter(Boolean);
  return <span>{` ${parts.join(", ")} connected with none of the versions.`}</span>;
}
