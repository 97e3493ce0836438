import type { Lag as LagAnswer } from "../api/types";
import { age, dateTime } from "../lib/format";
import { ClockIcon, ErrorIcon, WarningIcon } from "../ui/icons";
import styles from "./lag.module.css";

const ICONS = { error: ErrorIcon, warning: WarningIcon, info: ClockIcon };

/** Why a subscription does not drain: the cause in words, the figures that show it, and what to do next. */
export function Lag({ lag, now }: { lag: LagAnswer; now: number }) {
  const Icon = ICONS[lag.severity];
  return (
    <aside className={`${styles.lag} ${styles[lag.severity]}`} aria-label="Why is it not draining?">
      <Icon />
      <p>
        <b>It {lag.title}</b> <span title={dateTime(lag.since)}>for {age(lag.since, now)}</span>
      </p>
      <p>{lag.detail}</p>
      <p className={styles.advice}>{lag.advice}</p>
    </aside>
  );
}
