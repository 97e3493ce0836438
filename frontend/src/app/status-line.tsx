import { useEffect, useRef, useState } from "react";
import { useHealth } from "../api/health";
import { useFeedFailure } from "../api/live";
import type { Hop } from "../api/types";
import { useServerNow } from "../lib/clock";
import { age, dateTime, plural, time } from "../lib/format";
import { localized } from "../lib/language/sentences";
import { nameOfHop, ranked } from "../shared/hops";
import { ErrorIcon, WarningIcon } from "../ui/icons";
import styles from "./status-line.module.css";

/**
 * A line under the header, always present so that nothing moves: the age of the numbers, and the part with a problem,
 * since when, and the next step. It resets by itself.
 */
export function StatusLine() {
  const { at, stale, hops, begun } = useHealth();
  const failure = useFeedFailure();
  const now = useServerNow();
  const asOf = at === null ? "no numbers yet" : `as of ${time(at)}`;
  const old = stale && at !== null ? `, ${age(at, now)} old` : "";
  const [first, ...others] = ranked(hops.filter(({ state }) => state === "down"));
  const [late] = ranked(hops);
  const isLate = first === undefined && late !== undefined;
  // What is late for a moment, as beside a busy machine, is a dot and a few words: nothing to be done.
  const tone = first
    ? styles.bad
    : isLate
      ? `${styles.calm} ${styles.late}`
      : stale || failure
        ? styles.warn
        : styles.calm;
  return (
    <div className={`${styles.line} ${tone}`} data-status-line>
      {/* Reasons contain their age, so each part is announced once, not each second. */}
      <span role="status" className="visually-hidden">
        {first
          ? `${nameOfHop(first)} does not answer. ${localized(first.advice)}`
          : begun && "All parts answer"}
      </span>
      <div className={styles.said}>
        {first ? (
          <>
            <ErrorIcon />
            <Summary hop={first} />
            {others.length > 0 && (
              <span className={styles.more}>and {plural(others.length, "more", "more")}</span>
            )}
          </>
        ) : failure !== null ? (
          <>
            <WarningIcon />
            <span className={styles.text}>
              <b>This page is not kept current:</b> {failure}
            </span>
          </>
        ) : (
          <span className={styles.text}>
            {isLate
              ? `${nameOfHop(late)} is late`
              : !begun
                ? "Connecting to the gateway…"
                : stale
                  ? "No updates from the brokers"
                  : "All parts answer"}
          </span>
        )}
      </div>
      {first && <Details hops={[first, ...others]} now={now} />}
      <span className={styles.fresh}>
        <span className={styles.dot} aria-hidden="true" />
        {begun ? `${stale ? "Stale" : "Live"} · ${asOf}` : "Connecting"}
        {old}
      </span>
    </div>
  );
}

function Summary({ hop }: { hop: Hop }) {
  return (
    <span className={styles.text} title={localized(`${hop.reason}. ${hop.advice}`)}>
      <b lang="en">{withoutStop(hop.reason)}</b>, since {time(hop.since)}.{" "}
      <span className={styles.advice} lang="en">
        {hop.advice}
      </span>
    </span>
  );
}

/** All parts that are not well, in full, over the page. */
function Details({ hops, now }: { hops: Hop[]; now: number }) {
  const [opened, setOpened] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!opened) return;
    const outside = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setOpened(false);
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [opened]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Esc closes from anywhere within
    <div
      ref={box}
      className={styles.holder}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !opened) return;
        setOpened(false);
        button.current?.focus();
      }}
    >
      <button
        ref={button}
        type="button"
        className={styles.button}
        aria-expanded={opened}
        onClick={() => setOpened(!opened)}
      >
        What to do
      </button>
      {opened && (
        <ul className={styles.details} aria-label="Parts that do not answer">
          {hops.map((hop) => (
            <li key={`${hop.hop} ${hop.id}`}>
              <b>{nameOfHop(hop)}</b>
              <p lang="en">{withoutStop(hop.reason)}.</p>
              <p lang="en">{hop.advice}</p>
              <p className={styles.since}>
                Since {dateTime(hop.since)} ({age(hop.since, now)})
              </p>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function withoutStop(text: string): string {
  return text.replace(/\.$/, "");
}
