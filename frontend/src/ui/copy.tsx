import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import styles from "./copy.module.css";
import { CheckIcon, CopyIcon } from "./icons";

export function Copy({ value, what }: { value: string; what: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : `Copy ${what}`}>
          <ActionIcon size={24} onClick={copy} aria-label={copied ? `Copied ${what}` : `Copy ${what}`}>
            {copied ? <CheckIcon size={14} /> : <CopyIcon size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** A command with its copy button, e.g. the curl equivalent of a dialog's change. */
export function Command({
  label,
  note,
  what = "command",
  text,
}: {
  label: string;
  note?: string;
  what?: "command" | "program";
  text: string;
}) {
  return (
    <div className={styles.command}>
      <div className={styles.head}>
        <span>{label}</span>
        {note && <span className={styles.note}>{note}</span>}
        <Copy value={text} what={`the ${label} ${what}`} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={`${label} ${what}`}>
        {text}
      </pre>
    </div>
  );
}
