import { Button, Skeleton } from "@mantine/core";
import type { ReactNode } from "react";
import { asApiError } from "../lib/errors";
import { Copy } from "./copy";
import { ErrorIcon, WarningIcon } from "./icons";
import styles from "./states.module.css";

/** A failed call: what happened, at which hop, the id to quote, and what to do now. */
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
  return (
    <div className={styles.failure} role="alert">
      <ErrorIcon />
      <div className={styles.body}>
        <strong>{title ?? failure.message}</strong>
        {title && <p>{failure.message}</p>}
        <p>{failure.nextStep}</p>
        <dl className={styles.facts}>
          <div>
            <dt>Failed at</dt>
            <dd>{failure.hop}</dd>
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

export function Loading({ rows = 4, label }: { rows?: number; label: string }) {
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
