import { useState } from "react";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import styles from "./properties.module.css";
import { PropertiesDialog } from "./properties-dialog";
import type { Kept, Properties } from "./property-lines";

/** The properties that users and programs set on a topic or namespace. `given`: undefined while not known. */
export function PropertiesPanel({
  of,
  given,
  error = null,
  why = null,
  onRetry,
}: {
  of: Kept;
  given: Properties | undefined;
  error?: unknown;
  /** The reason why the user may not change them. */
  why?: string | null;
  onRetry?: () => void;
}) {
  const [open, setOpen] = useState(false);
  const rows = Object.entries(given ?? {}).sort(([one], [other]) => one.localeCompare(other));
  return (
    <Panel
      title="Properties"
      actions={
        <ActionButton variant="default" disabled={!given} why={why} onClick={() => setOpen(true)}>
          Change properties…
        </ActionButton>
      }
    >
      {error !== null && (
        <ErrorNotice error={error} title="The properties could not be read" onRetry={onRetry} />
      )}
      {!given && error === null && <Loading label="Loading the properties" rows={2} />}
      {given && rows.length === 0 && <p>None is set.</p>}
      {rows.length > 0 && (
        <dl className={styles.properties}>
          {rows.map(([key, value]) => (
            <div key={key} style={{ display: "contents" }}>
              <dt>{key}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {open && given && <PropertiesDialog of={of} shown={given} onClose={() => setOpen(false)} />}
    </Panel>
  );
}
