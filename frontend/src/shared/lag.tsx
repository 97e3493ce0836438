import type { Lag as LagAnswer } from "../api/types";
import { age, dateTime } from "../lib/format";
import { withMoments } from "../lib/moments";
import { Copy } from "../ui/copy";
import { ClockIcon, ErrorIcon, WarningIcon } from "../ui/icons";
import { PathLink } from "../ui/path-link";
import styles from "./lag.module.css";
import type { Step } from "./next-step";

const ICONS = { error: ErrorIcon, warning: WarningIcon, info: ClockIcon };

/** The cause of a subscription that does not drain: a text, its figures and the next step. */
export function Lag({ lag, now, step }: { lag: LagAnswer; now: number; step: Step | null }) {
  const Icon = ICONS[lag.severity];
  return (
    <aside className={`${styles.lag} ${styles[lag.severity]}`} aria-label="Why is it not draining?">
      <Icon />
      <p>
        <b lang="en">{sentence(lag.title)}</b>{" "}
        <span title={dateTime(lag.since)}>
          for {lag.at_least && "at least "}
          {age(lag.since, now)}
        </span>
      </p>
      <p lang="en">{withMoments(lag.detail, now)}</p>
      <p className={styles.advice}>
        <span lang="en">{lag.advice}</span>
        {step && " "}
        {step && "path" in step && <PathLink path={step.path}>{step.label}</PathLink>}
        {step && "command" in step && <Copy value={step.command} what={step.label.replace(/^Copy /, "")} />}
      </p>
    </aside>
  );
}

/** "has no consumer" → "It has no consumer"; ": one consumer …" → "One consumer …" */
function sentence(title: string): string {
  if (!title.startsWith(":")) return `It ${title}`;
  const rest = title.slice(1).trim();
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}
