import type { ReactNode } from "react";
import styles from "./code.module.css";

/** Text that scrolls in a box of its own. */
export function Code({ label, children }: { label: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <pre className={styles.code} tabIndex={0} role="region" aria-label={label}>
      {children}
    </pre>
  );
}
