import { useStale } from "../api/health";
import type { Known } from "../api/types";
import { time } from "../lib/format";
import type { Column } from "../ui/grid/table";
import { AtRestIcon, ClockIcon } from "../ui/icons";
import styles from "./figure.module.css";

/** Whether a row's figures are true now, and when they were. */
export interface Source {
  known: Known;
  at: number;
}

export type Mark = "last" | "at_rest" | null;

/** The mark of a figure; `isStale`: the collector itself has no new data, so that nothing is live. */
export function markOf({ known }: Source, isStale: boolean): Mark {
  if (known === "at_rest") return "at_rest";
  return known === "last" || known === "no" || isStale ? "last" : null;
}

/**
 * A number with its freshness: plain while it is live, else with a mark that states when it was true. An unknown value
 * is a dash, never 0. The mark is placed beside the number, which therefore does not move.
 */
export function Figure({
  of,
  value,
  text,
  why,
}: {
  of: Source;
  value: number | null;
  text: (value: number) => string;
  /** The text of the mark for a sum of which only a part is old. */
  why?: string | undefined;
}) {
  const mark = markOf(of, useStale());
  if (value === null) return <span title="Not known: no broker has reported it yet">—</span>;
  if (mark === null) return text(value);
  const words = why
    ? why
    : mark === "last"
      ? `as last known at ${time(of.at)}`
      : `at rest: as stored, read at ${time(of.at)}`;
  return (
    <span className={mark === "last" ? styles.last : styles.atRest} title={words}>
      <span className={styles.mark}>
        {mark === "last" ? <ClockIcon size={11} /> : <AtRestIcon size={11} />}
      </span>
      {text(value)}
      <span className="visually-hidden">, {words}</span>
    </span>
  );
}

/** A column of such numbers. */
export function figureColumn<Row extends Source>(
  key: string,
  header: string,
  value: (row: Row) => number | null,
  text: (value: number) => string,
): Column<Row> {
  return {
    key,
    header,
    numeric: true,
    cell: (row) => <Figure of={row} value={value(row)} text={text} />,
  };
}

/** Texts about the completeness of sums: the old parts and the missing ones. */
export function shareKnown({
  topics,
  unknown,
  last,
}: {
  topics: number;
  unknown: number;
  last: number;
}): string {
  const of = ` of ${topics} topics`;
  const parts = [
    last > 0 && `${last}${of}: last known`,
    unknown > 0 && `${unknown}${last > 0 ? "" : of}: not known`,
  ];
  return parts.filter(Boolean).join(", ");
}
