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

/** A command with its copy button, e.g. the curl equivalent of what a dialog did. */
export function Command({ label, text }: { label: string; text: string }) {
  return (
    <div className={styles.command}>
      <div className={styles.head}>
        <span>{label}</span>
        <Copy value={text} what={`the ${label} command`} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={`${label} command`}>
        {text}
      </pre>
    </div>
  );
}
