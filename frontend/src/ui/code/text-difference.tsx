import { useMemo } from "react";
import { plural } from "../../lib/format";
import { Code } from "./code";
import styles from "./code.module.css";
import { folded, linesOf } from "./lines";

const SIGNS = { same: " ", added: "+", removed: "−" };

/** The difference of two texts line by line; equal lines away from it are left out. */
export function TextDifference({ label, before, after }: { label: string; before: string; after: string }) {
  const parts = useMemo(
    () =>
      folded(linesOf(before, after)).filter(
        // A text that is not there has no line, not even an empty one.
        ({ kind }) => !(kind === "removed" && before === "") && !(kind === "added" && after === ""),
      ),
    [before, after],
  );
  return (
    <Code label={label}>
      {parts.map((part, index) =>
        part.kind === "gap" ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
          <span key={index} className={styles.gap}>
            {`… ${plural(part.lines, "equal line")}\n`}
          </span>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
          <span key={index} className={styles[part.kind]}>
            {`${SIGNS[part.kind]} ${part.text}\n`}
          </span>
        ),
      )}
    </Code>
  );
}
