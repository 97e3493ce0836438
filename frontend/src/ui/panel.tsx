import type { ReactNode } from "react";
import styles from "./panel.module.css";

/** A titled section of a page; `actions` sit at the right of its head. */
export function Panel({
  title,
  note,
  actions,
  children,
  flush = false,
}: {
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className={styles.panel} aria-label={title}>
      <div className={styles.head}>
        <h2>{title}</h2>
        {note !== undefined && <span className={styles.note}>{note}</span>}
        {actions && <div className={styles.actions}>{actions}</div>}
      </div>
      <div className={flush ? undefined : styles.body}>{children}</div>
    </section>
  );
}

/** `wide` gives the page the whole height, for one list; `narrow` suits a form. */
export function Page({
  children,
  shape = "page",
}: {
  children: ReactNode;
  shape?: "page" | "wide" | "narrow";
}) {
  return <div className={styles[shape]}>{children}</div>;
}

/** Title, state and freshness: the head every page starts with. */
export function PageHead({
  crumbs,
  title,
  badges,
  freshness,
  actions,
  children,
}: {
  crumbs?: ReactNode;
  title: ReactNode;
  badges?: ReactNode;
  freshness?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <header className={styles.pageHead}>
      {crumbs && (
        <nav aria-label="Breadcrumbs" className={styles.crumbs}>
          <ol>{crumbs}</ol>
        </nav>
      )}
      <div className={styles.titleRow}>
        <h1>{title}</h1>
        {badges && <div className={styles.badges}>{badges}</div>}
        <div className={styles.right}>
          {freshness}
          {actions}
        </div>
      </div>
      {children}
    </header>
  );
}

export function Crumb({ children }: { children: ReactNode }) {
  return <li>{children}</li>;
}

export function Columns({ children, even = false }: { children: ReactNode; even?: boolean }) {
  return <div className={even ? styles.even : styles.columns}>{children}</div>;
}
