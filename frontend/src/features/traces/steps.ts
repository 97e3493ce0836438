import type { Span, Trace } from "../../api/types";

export interface Step {
  id: string;
  depth: number;
  label: string;
  detail: string;
  startUs: number;
  /** Null: not ended, or not known. */
  endUs: number | null;
}

const LABELS: Record<Span["name"], string> = {
  publish: "Publish",
  admit: "Limits and rates",
  append: "Append to the ledger",
  bookie: "Bookie",
  dispatch: "Dispatch",
  process: "Consumer",
};

/** The spans of a trace as lines, each below its parent. */
export function stepsOf({ spans }: Trace): Step[] {
  const lines: Step[] = [];
  const add = (parent: string | null, depth: number) => {
    for (const span of spans.filter(
      (one) => (ids.has(one.parent_id ?? "") ? one.parent_id : null) === parent,
    )) {
      lines.push({
        id: span.id,
        depth,
        label: LABELS[span.name],
        detail: detailOf(span),
        startUs: span.start_us,
        endUs: span.end_us,
      });
      add(span.id, depth + 1);
    }
  };
  const ids = new Set(spans.map(({ id }) => id));
  add(null, 0);
  return lines;
}

function detailOf({ name, detail }: Span): string {
  switch (name) {
    case "publish":
      return `by ${detail.producer}`;
    case "bookie":
      return detail.bookie ?? "";
    case "dispatch": {
      const again = Number(detail.redeliveries);
      return `to ${detail.subscription}${again > 0 ? `, delivered again (${again})` : ""}`;
    }
    case "process":
      return `${detail.consumer} of ${detail.subscription}`;
    default:
      return "";
  }
}

/** The end of the last step that ended, in microseconds; at least 1. */
export function lengthOf(steps: readonly Step[]): number {
  return Math.max(1, ...steps.map(({ startUs, endUs }) => endUs ?? startUs));
}

/** 1234 → "1.23 ms" */
export function micros(us: number): string {
  if (us < 1_000) return `${us} µs`;
  const [value, unit] = us < 1_000_000 ? [us / 1_000, "ms"] : [us / 1_000_000, "s"];
  return `${Number(value.toPrecision(3))} ${unit}`;
}
