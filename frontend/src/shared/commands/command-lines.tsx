import { useSession } from "../../api/session/session";
import { Command } from "../../ui/copy";
import { ChevronIcon } from "../../ui/icons";
import styles from "./commands.module.css";
import { type Commands, type Line, withCredential } from "./shell";

/** The change as command lines of the tools; collapsed at first. */
export function CommandLines({ of, note }: { of: Commands; note?: string | undefined }) {
  const isAsked = useSession().session?.authentication === true;
  return (
    <details className={styles.commands}>
      <summary>
        <ChevronIcon size={12} /> As a command
      </summary>
      <div className={styles.lines}>
        {note && <p className={styles.note}>{note}</p>}
        {isAsked && (
          <p className={styles.note}>
            <code>PULSAR_TOKEN_FILE</code> is the path of a file with a token of a role that may do this,{" "}
            <code>PULSAR_HEADER_FILE</code> of one with the line <code>Authorization: Bearer …</code> of it.
          </p>
        )}
        <OneLine label="curl" line={of.curl} isAsked={isAsked} />
        {of.client ? (
          <>
            <OneLine label="pulsar-client" line={of.client} isAsked={isAsked} />
            {of.python && <OneLine label="Python" line={of.python} isAsked={isAsked} />}
          </>
        ) : (
          <>
            <OneLine label="pulsarctl" line={of.pulsarctl} isAsked={isAsked} />
            <OneLine label="pulsar-admin" line={of.pulsarAdmin} isAsked={isAsked} />
          </>
        )}
      </div>
    </details>
  );
}

function OneLine({ label, line, isAsked }: { label: string; line: Line; isAsked: boolean }) {
  if (typeof line === "string") return <Command label={label} text={isAsked ? withCredential(line) : line} />;
  return (
    <p className={styles.note}>
      <b>{label}</b> {line.why}
    </p>
  );
}
