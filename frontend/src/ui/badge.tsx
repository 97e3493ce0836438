import type { ReactNode } from "react";
import styles from "./badge.module.css";

export type Tone = "neutral" | "ok" | "warn" | "bad" | "accent";

/** State in words and colour; the words alone must carry it. */
export function Badge({
  tone = "neutral",
  dot = false,
  children,
}: {
  tone?: Tone;
  dot?: boolean;
  children: ReactNode;
}) {
  return (
    <span className={`${styles.badge} ${styles[tone]}`}>
      {dot && <span className={styles.dot} data-dot aria-hidden="true" />}
      {children}
    </span>
  );
}

const GOOD = new Set([
  "ok",
  "up",
  "ready",
  "running",
  "healthy",
  "online",
  "available",
  "writable",
  "active",
]);
const BAD = new Set(["down", "failed", "lost", "offline", "unavailable", "error", "unreachable"]);

/** Tone of a server's state word; an unknown word is neither good nor bad. */
export function toneOfState(state: string): Tone {
  const word = state.toLowerCase();
  if (GOOD.has(word)) return "ok";
  if (BAD.has(word)) return "bad";
  return word.includes("read") || word.includes("drain") ? "warn" : "neutral";
}
