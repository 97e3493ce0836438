import { Command } from "../../ui/copy";
import { ChevronIcon } from "../../ui/icons";
import styles from "./commands.module.css";
import type { Commands, Line } from "./shell";

/** The change as command lines of the tools; collapsed at first. */
export function CommandLines({ of, note }: { of: Commands; note?: string | undefined }) {
  return (
    <details className={styles.commands}>
      <summary>
        <ChevronIcon size={12} /> As a command
      </summary>
      <div className={styles.lines}>
        {note && <p className={styles.note}>{note}</p>}
        <OneLine label="curl" line={of.curl} />
        <OneLine label="pulsarctl" line={of.pulsarctl} />
        <OneLine label="pulsar-admin" line={of.pulsarAdmin} />
      </div>
    </details>
  );
}

function OneLine({ label, line }: { label: string; line: Line }) {
  if (typeof line === "string") return <Command label={label} text={line} />;
  return (
    <p className={styles.note}>
      <b>{label}</b> {line.why}
    </p>
  );
}
