import type { ReactNode } from "react";
import { useHealth } from "../../api/health";
import { failureOf } from "../../lib/errors";
import { time } from "../../lib/format";
import { ErrorNotice, Loading } from "../../ui/states";
import styles from "./tenants.module.css";

/** The part of a query's state that the lists and the page of a namespace share. */
interface Answered {
  error: unknown;
  dataUpdatedAt: number;
  refetch: () => unknown;
}

/** The time at which the numbers of a page were read; they are read again every few seconds, unless that failed. */
export function ReadAt({ at, failed }: { at: number; failed: boolean }) {
  const isOld = useHealth().stale || failed;
  if (at === 0) return null;
  return (
    <span className={isOld ? styles.old : styles.dim}>
      {isOld ? `Stale · read at ${time(at)}` : `Read at ${time(at)}`}
    </span>
  );
}

/** Rows of a list, or why there are none to show: never an empty list for a failed call. */
export function Listing({
  answered,
  what,
  total,
  children,
}: {
  answered: Answered;
  what: string;
  total: number | undefined;
  children: ReactNode;
}) {
  return (
    <>
      {failureOf({ error: answered.error, data: total }) && (
        <ErrorNotice
          error={answered.error}
          title={
            total === undefined
              ? `The ${what}s could not be listed`
              : `The ${what}s could not be read again; these are from ${time(answered.dataUpdatedAt)}`
          }
          onRetry={() => answered.refetch()}
        />
      )}
      {total === undefined
        ? answered.error === null && <Loading label={`Loading ${what}s`} rows={6} />
        : children}
    </>
  );
}
