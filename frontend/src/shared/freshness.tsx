import { useHealth } from "../api/health";
import { useFeedFailure, useSocketStatus } from "../api/live";
import { time } from "../lib/format";
import styles from "./freshness.module.css";

/**
 * How old the numbers of a page are that were true at `at`. While its feed brings news of what changes, they are as
 * old as the collector's last look at all parts.
 */
export function Freshness({ at }: { at: number }) {
  const { stale, asOf, why } = useFreshness(at);
  return (
    <span className={stale ? styles.stale : styles.fresh} title={why ?? `Numbers as of ${time(asOf)}`}>
      <span className={stale ? styles.still : styles.pulse} aria-hidden="true" />
      {`${stale ? "Stale" : "Live"} · as of ${time(asOf)}`}
    </span>
  );
}

/** `asOf`: when what is shown was true; `why`: the reason of the page's own feed, null when it has none. */
export function useFreshness(at: number): { stale: boolean; asOf: number; why: string | null } {
  const health = useHealth();
  const isFed = useSocketStatus() === "open";
  const why = useFeedFailure();
  return {
    stale: health.stale || why !== null,
    asOf: isFed && why === null ? (health.at ?? at) : Math.min(at, health.at ?? at),
    why,
  };
}
