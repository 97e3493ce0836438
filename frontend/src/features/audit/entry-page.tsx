import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { dateTime, plural } from "../../lib/format";
import { Code } from "../../ui/code/code";
import { TextDifference } from "../../ui/code/text-difference";
import { Copy } from "../../ui/copy";
import { Fact } from "../../ui/fact";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./audit.module.css";
import { Outcome, whatText, whereText } from "./audit-words";
import { type AuditChange, type AuditRow, entryQuery } from "./queries";

const route = getRouteApi("/audit/$id");

/** The page of an audit entry: what was sent, and each value before and after. */
export function EntryPage() {
  const { id } = route.useParams();
  useTitle(`Audit entry ${id}`);
  const stored = useQuery(entryQuery(id));
  const failure = failureOf(stored);
  const row = stored.data;
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/audit">Audit log</Link>
          </Crumb>
        }
        title={
          <>
            {row ? whatText(row) : `Entry ${id}`}
            <Copy value={location.href} what="the link to this entry" />
          </>
        }
        badges={row && <Outcome status={row.status} />}
      />
      {failure && (
        <ErrorNotice error={failure} title={`Entry ${id} could not be read`} onRetry={stored.refetch} />
      )}
      {row ? <Entry row={row} /> : !failure && <Loading label="Loading the entry" rows={8} />}
    </Page>
  );
}

function Entry({ row }: { row: AuditRow }) {
  const where = whereText(row);
  return (
    <>
      <Panel title={`Entry ${row.id}`}>
        <dl className={styles.facts}>
          <Fact label="When">{dateTime(row.at)}</Fact>
          <Fact label="Who">
            {row.actor ? (
              <Link to="/audit" search={{ actor: row.actor }} title="All entries of this name">
                {row.actor}
              </Link>
            ) : (
              "anonymous"
            )}
          </Fact>
          <Fact label="Role">
            {row.role ? (
              <Link to="/audit" search={{ role: row.role }} title="All entries of this role">
                {row.role}
              </Link>
            ) : (
              "none"
            )}
          </Fact>
          <Fact label="From">
            <span className="mono">{row.address}</span>
          </Fact>
          <Fact label="What">
            <Link to="/audit" search={{ operation: row.operation }} title="All entries of this operation">
              {whatText(row)}
            </Link>
          </Fact>
          <Fact label="Where">
            {where ? (
              <Link to="/audit" search={{ where }} title="All entries of this place">
                {where}
              </Link>
            ) : (
              "nothing of a tenant, or several"
            )}
          </Fact>
          <Fact label="Cluster">{row.cluster || "—"}</Fact>
          <Fact label="Request id">
            <span className="mono">{row.request_id}</span>
          </Fact>
        </dl>
      </Panel>
      <Panel title="Changed values">
        <div className={styles.stack}>
          {row.changes.length === 0 && <p className={styles.dim}>No value was changed.</p>}
          {row.changes.map((change, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the list of an entry does not change
            <Change key={index} change={change} />
          ))}
        </div>
      </Panel>
      <Panel title="Request">
        <div className={styles.stack}>
          <Code label="Method and path">{`${row.method} ${row.target}`}</Code>
          {row.given ? (
            <Code label="Body">{indented(row.given)}</Code>
          ) : (
            <p className={styles.dim}>Without a body.</p>
          )}
        </div>
      </Panel>
    </>
  );
}

function Change({ change }: { change: AuditChange }) {
  if (change.more !== undefined)
    return <p className={styles.dim}>{plural(change.more, "further change")} left out.</p>;
  const where = change.where ?? "";
  return (
    <section aria-label={where} className={styles.stack}>
      <h3 className="mono">{where}</h3>
      <TextDifference
        label={`${where}: before and after`}
        before={valueText(change.before)}
        after={valueText(change.after)}
      />
    </section>
  );
}

/** A value as lines; of a value that is not there, none. */
function valueText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** A JSON body with line breaks; a body that was cut stays as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
