import { useMemo } from "react";
import type { SchemaKind } from "../../api/types";
import { Badge, type Tone } from "../../ui/badge";
import { TextDifference } from "../../ui/code/text-difference";
import { Table } from "../../ui/grid/table";
import { type Change, changesOf, type Field, fieldsOf } from "./fields";
import styles from "./schema.module.css";

export interface Side {
  label: string;
  type: SchemaKind;
  definition: string;
}

const KINDS: Record<Change["kind"], { text: string; tone: Tone }> = {
  added: { text: "added", tone: "ok" },
  removed: { text: "removed", tone: "bad" },
  changed: { text: "changed", tone: "warn" },
};

/** The difference of two definitions: by field where there are fields, and by line. */
export function Difference({ before, after }: { before: Side; after: Side }) {
  const changes = useMemo(() => {
    const old = fieldsOf(before.type, before.definition);
    const now = fieldsOf(after.type, after.definition);
    return old && now ? changesOf(old, now) : null;
  }, [before.type, before.definition, after.type, after.definition]);
  if (before.type === after.type && before.definition === after.definition)
    return (
      <p className={styles.quiet}>{`The definitions of ${before.label} and ${after.label} are the same.`}</p>
    );
  return (
    <div className={styles.stack}>
      {before.type !== after.type && (
        <p>
          The type changed from <b className="mono">{before.type}</b> to <b className="mono">{after.type}</b>.
        </p>
      )}
      {changes && (
        <section aria-label={`Fields from ${before.label} to ${after.label}`} className={styles.stack}>
          <h3>{`Fields, from ${before.label} to ${after.label}`}</h3>
          {changes.length === 0 ? (
            <p className={styles.quiet}>No field was added, removed or changed.</p>
          ) : (
            <Table<Change>
              caption={`Changes of the fields, from ${before.label} to ${after.label}`}
              maxHeight={320}
              rows={changes}
              rowKey={({ kind, path }, index) => `${kind} ${path} ${index}`}
              columns={[
                {
                  key: "path",
                  header: "Field",
                  cell: ({ path }) => <b className="mono">{path || "the whole message"}</b>,
                },
                {
                  key: "kind",
                  header: "What",
                  cell: ({ kind }) => <Badge tone={KINDS[kind].tone}>{KINDS[kind].text}</Badge>,
                },
                { key: "before", header: "Before", cell: (change) => <FieldText field={change.before} /> },
                { key: "after", header: "After", cell: (change) => <FieldText field={change.after} /> },
              ]}
            />
          )}
        </section>
      )}
      <TextDifference
        label={`Text from ${before.label} to ${after.label}`}
        before={before.definition}
        after={after.definition}
      />
    </div>
  );
}

function FieldText({ field }: { field: Field | null }) {
  if (!field) return <span className={styles.quiet}>not there</span>;
  return (
    <>
      <span className="mono">{field.type}</span>
      <small className={styles.default}>
        {field.default === null ? (
          "no default"
        ) : (
          <>
            default <span className="mono">{field.default}</span>
          </>
        )}
      </small>
    </>
  );
}
