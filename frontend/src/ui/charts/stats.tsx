import type { ReactNode } from "react";
import type { Point } from "./history";
import { Spark } from "./spark";
import styles from "./stats.module.css";

export interface Stat {
  label: string;
  value: ReactNode;
  unit?: string | undefined;
  long?: boolean; // a text that would not fit at the size of numbers
  detail?: ReactNode;
  trend?: { points: readonly Point[]; column: number };
}

/** A strip of the page's main numbers. */
export function Stats({ label, stats }: { label: string; stats: Stat[] }) {
  const detailed = stats.some((stat) => stat.detail !== undefined);
  return (
    <dl className={styles.strip} aria-label={label}>
      {stats.map((stat) => (
        <div key={stat.label} className={styles.stat}>
          <dt>{stat.label}</dt>
          <dd>
            <span className={stat.long ? styles.text : styles.value}>{stat.value}</span>
            {stat.unit && (
              <span className={`${styles.unit} ${stat.unit.startsWith("/") ? "" : styles.word}`}>
                {" "}
                {stat.unit}
              </span>
            )}
            {detailed && <span className={styles.detail}>{stat.detail ?? "\u00a0"}</span>}
            {stat.trend && <Spark points={stat.trend.points} column={stat.trend.column} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}
