import type { ReactNode } from "react";
import { DocumentationLink } from "../../ui/documentation-link";
import { Mark } from "../../ui/icons";
import { SchemeToggle } from "../../ui/scheme-toggle";
import { useTitle } from "../../ui/use-title";
import styles from "./sign-in.module.css";

/** A page that consists of one form. */
export function Frame({
  title,
  note,
  children,
  below,
}: {
  title: string;
  note: ReactNode;
  children: ReactNode;
  below?: ReactNode;
}) {
  useTitle(title);
  return (
    <div className={styles.page}>
      <div className={styles.tools}>
        <DocumentationLink />
        <SchemeToggle />
      </div>
      <main className={styles.middle}>
        <div className={styles.head}>
          <Mark size={40} />
          <h1>{title}</h1>
          <p className={styles.dim}>{note}</p>
        </div>
        <div className={styles.card}>{children}</div>
        {below}
      </main>
    </div>
  );
}
