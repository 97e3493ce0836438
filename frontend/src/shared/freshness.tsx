import { POLL_MS, useSocketStatus } from "../api/live";
import { useServerNow } from "../lib/clock";
import { age, time } from "../lib/format";
import styles from "./freshness.module.css";

/** Age of the numbers on a page. Without the live connection they are stale after two polling periods. */
export function Freshness({ at }: { at: number }) {
  const now = useServerNow();
  const live = useSocketStatus() === "open";
  const old = age(at, now);
  const stale = !live && now - at > 2 * POLL_MS;
  const text = live
    ? `Live · changed ${old === "now" ? "just now" : `${old} ago`}`
    : `As of ${time(at)} · ${old === "now" ? "just now" : `${old} old`}`;
  return (
    <span className={stale ? styles.stale : styles.fresh} title={`Measured at ${time(at)}`}>
      <span className={live ? styles.pulse : styles.still} aria-hidden="true" />
      {stale ? `Stale: ${text.toLowerCase()}` : text}
    </span>
  );
}
