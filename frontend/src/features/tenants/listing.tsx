import { TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useHealth } from "../../api/health";
import { failureOf } from "../../lib/errors";
import { count, plural, time } from "../../lib/format";
import { SearchIcon } from "../../ui/icons";
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
  shown,
  children,
}: {
  answered: Answered;
  what: string;
  total: number | undefined;
  shown: number;
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
      {total !== undefined && total > shown && (
        <p className={styles.rest}>
          {count(shown)} of {plural(total, what)} are shown; narrow the filter to see others.
        </p>
      )}
    </>
  );
}

export function Filter({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  return (
    <TextInput
      size="xs"
      aria-label="Part of the name"
      placeholder="Part of the name"
      leftSection={<SearchIcon size={14} />}
      className={styles.filter ?? ""}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
