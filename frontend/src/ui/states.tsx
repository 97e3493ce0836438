import { Button, Skeleton } from "@mantine/core";
import { createContext, type ReactNode, useContext } from "react";
import { asApiError } from "../lib/errors";
import { Copy } from "./copy";
import { ErrorIcon, WarningIcon } from "./icons";
import styles from "./states.module.css";

/** A part of the instance that is not well, in words, while pages wait for it. */
export interface Trouble {
  name: string;
  reason: string;
  advice: string;
}

/** Set by the shell: the failed part, which waiting and failed views name. */
export const TroubleContext = createContext<Trouble | null>(null);

/** Set by the shell while no numbers arrive: since when, as text. Live charts end there. */
export const StaleContext = createContext<string | null>(null);

/** A failed call: the event, the hop, the id to quote, and the next step. */
export function ErrorNotice({
  error,
  title,
  onRetry,
}: {
  error: unknown;
  title?: string;
  onRetry?: (() => void) | undefined;
}) {
  const failure = asApiError(error);
  const known = useContext(TroubleContext);
  const trouble = failure.isOfAPart ? known : null;
  return (
    <div className={styles.failure} role="alert">
      <ErrorIcon />
      <div className={styles.body}>
        <strong lang={title ? undefined : failure.lang}>{title ?? failure.message}</strong>
        {title && <p lang={failure.lang}>{failure.message}</p>}
        {trouble && <p lang="en">{trouble.reason}</p>}
        <p lang={trouble ? "en" : undefined}>{trouble?.advice ?? failure.nextStep}</p>
        <dl className={styles.facts}>
          <div>
            <dt>Failed at</dt>
            <dd>{trouble?.name ?? failure.hop}</dd>
          </div>
          <div>
            <dt>Call</dt>
            <dd className="mono">{failure.call}</dd>
          </div>
          {failure.status !== null && (
            <div>
              <dt>Status</dt>
              <dd>{failure.status}</dd>
            </div>
          )}
          {failure.field && (
            <div>
              <dt>Field</dt>
              <dd className="mono">{failure.field}</dd>
            </div>
          )}
          <div>
            <dt>Request id</dt>
            <dd className="mono">
              {failure.requestId ?? "none"}
              {failure.requestId && <Copy value={failure.requestId} what="request id" />}
            </dd>
          </div>
        </dl>
        {onRetry && (
          <Button variant="default" onClick={onRetry}>
            Retry
          </Button>
        )}
      </div>
    </div>
  );
}

export function Notice({ tone, children }: { tone: "warning" | "error" | "info"; children: ReactNode }) {
  return (
    <div className={`${styles.notice} ${styles[tone]}`}>
      {tone === "error" ? <ErrorIcon /> : <WarningIcon />}
      <div>{children}</div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}

/** Placeholders, and when a part of the instance is missing, which one, instead. */
export function Loading({ rows = 4, label }: { rows?: number; label: string }) {
  const trouble = useContext(TroubleContext);
  if (trouble)
    return (
      <div className={styles.missing} role="status">
        <WarningIcon />
        <div>
          <strong lang="en">{trouble.reason}</strong>
          <p lang="en">{trouble.advice}</p>
          <p className={styles.quiet}>{label} resumes automatically when it answers again.</p>
        </div>
      </div>
    );
  return (
    <div className={styles.loading} role="status">
      <span className="visually-hidden">{label}</span>
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity
        <Skeleton key={index} height={18} radius={4} width={`${96 - ((index * 17) % 30)}%`} />
      ))}
    </div>
  );
}
