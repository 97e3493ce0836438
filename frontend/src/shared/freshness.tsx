import { type HealthView, useHealth } from "../api/health";
import { POLL_MS, useFeedFailure, useSocketStatus } from "../api/live";
import { time } from "../lib/format";
import styles from "./freshness.module.css";

/**
 * The age of a page's numbers, which were true at `at`, when they are older than the status line states for all. It is
 * also shown where the status line has no room for the age.
 */
export function Freshness({ at }: { at: number }) {
  const health = useHealth();
  const why = useFeedFailure();
  const isFed = useSocketStatus() === "open";
  const older = why !== null || (!isFed && isOlder(at, health));
  if (!older && !health.stale) return null;
  const asOf = older ? Math.min(at, health.at ?? at) : (health.at ?? at);
  return (
    <span className={older ? styles.stale : `${styles.stale} ${styles.narrow}`} title={why ?? undefined}>
      <span className={styles.dot} aria-hidden="true" />
      {`Stale · as of ${time(asOf)}`}
    </span>
  );
}

/** Polled numbers may be older by one poll. */
function isOlder(at: number, health: HealthView): boolean {
  return health.at !== null && health.at - at > POLL_MS + health.lateMs;
}
