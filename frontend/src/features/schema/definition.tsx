import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { SchemaVersion, SchemaVersions } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { bytes, dateTime, plural } from "../../lib/format";
import type { TopicId } from "../../shared/topic/queries";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code/code";
import { Copy } from "../../ui/copy";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { Difference } from "./difference";
import { versionQuery } from "./queries";
import styles from "./schema.module.css";
import type { Users } from "./users";

const NAMES_MAX = 5;

/** A single version, or two side by side. */
export function DefinitionPanel({
  id,
  version,
  compared,
  others,
  users,
}: {
  id: TopicId;
  version: number;
  compared: number | undefined;
  others: SchemaVersions["versions"];
  users: Users | undefined;
}) {
  const one = useQuery(versionQuery(id, version));
  const found = one.data;
  return (
    <Panel
      title={`Version ${version}`}
      note={found && <Badge>{found.type}</Badge>}
      actions={<Compare version={version} compared={compared} others={others} />}
    >
      {failureOf(one) && (
        <ErrorNotice
          error={one.error}
          title={`Version ${version} could not be read`}
          onRetry={() => one.refetch()}
        />
      )}
      {found ? (
        <div className={styles.stack}>
          <p className={styles.quiet}>
            Registered {dateTime(found.registered)}, {bytes(found.size)}
            <Used users={users} />
          </p>
          {compared === undefined || compared === version ? (
            <Definition of={found} />
          ) : (
            <Beside id={id} compared={compared} found={found} />
          )}
        </div>
      ) : (
        one.isPending && <Loading label={`Loading version ${version}`} rows={6} />
      )}
    </Panel>
  );
}

function Compare({
  version,
  compared,
  others,
}: {
  version: number;
  compared: number | undefined;
  others: SchemaVersions["versions"];
}) {
  const navigate = useNavigate();
  const numbers = new Set(others.map((other) => other.version));
  if (compared !== undefined) numbers.add(compared);
  numbers.delete(version);
  if (numbers.size === 0) return null;
  return (
    <NativeSelect
      aria-label="Compare with another version"
      size="xs"
      value={compared === undefined ? "" : String(compared)}
      data={[
        { value: "", label: "Compare with…" },
        ...[...numbers]
          .sort((a, b) => b - a)
          .map((other) => ({ value: `${other}`, label: `Compare with version ${other}` })),
      ]}
      onChange={({ currentTarget: { value } }) =>
        void navigate({
          to: ".",
          search: (before: object) => ({
            ...before,
            version,
            with: value === "" ? undefined : Number(value),
          }),
          resetScroll: false,
        } as Parameters<typeof navigate>[0])
      }
    />
  );
}

/** Names of the attached clients that use this version. */
function Used({ users }: { users: Users | undefined }) {
  if (!users) return <>, no connected client uses it.</>;
  const { producers, consumers } = users;
  return (
    <>
      {producers.length > 0 && (
        <>
          . {plural(producers.length, "producer")}: {named(producers.map(({ name }) => name))}
        </>
      )}
      {consumers.length > 0 && (
        <>
          . {plural(consumers.length, "consumer")}:{" "}
          {named(consumers.map(({ subscription, name }) => `${name} of ${subscription}`))}
        </>
      )}
    </>
  );
}

function named(names: string[]): string {
  const more = names.length - NAMES_MAX;
  return names.slice(0, NAMES_MAX).join(", ") + (more > 0 ? ` and ${plural(more, "other")}` : "");
}

function Definition({ of }: { of: SchemaVersion }) {
  const properties = Object.entries(of.properties);
  return (
    <>
      {of.definition === "" ? (
        <p className={styles.quiet}>This type needs no definition.</p>
      ) : (
        <div className={styles.copied}>
          <Copy value={of.definition} what="the definition" />
          <Code label={`Definition of version ${of.version}`}>{of.definition}</Code>
        </div>
      )}
      {properties.length > 0 && (
        <dl className={styles.facts}>
          {properties.map(([name, value]) => (
            <div key={name}>
              <dt className="mono">{name}</dt>
              <dd className="mono">{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

/** The earlier version is the one to compare with. */
function Beside({ id, compared, found }: { id: TopicId; compared: number; found: SchemaVersion }) {
  const other = useQuery(versionQuery(id, compared));
  if (failureOf(other))
    return (
      <ErrorNotice
        error={other.error}
        title={`Version ${compared} could not be read`}
        onRetry={() => other.refetch()}
      />
    );
  if (!other.data) return <Loading label={`Loading version ${compared}`} rows={6} />;
  const [before, after] = compared < found.version ? [other.data, found] : [found, other.data];
  return (
    <Difference
      before={{ label: `version ${before.version}`, ...before }}
      after={{ label: `version ${after.version}`, ...after }}
    />
  );
}
