import type { Cell, RunResult } from "../../api/types";

export type Pair<Item> = readonly [Item, Item];

export interface Figure {
  key: string;
  label: string;
  unit: string | null;
  values: Pair<Cell>;
  /** Percent by which the second differs from the first; null where that has no meaning. */
  change: number | null;
}

/** The figures of two results; one that a result lacks is null there. */
export function comparedFigures(first: RunResult, second: RunResult): Figure[] {
  const rows = new Map([...second.summary, ...first.summary].map((row) => [row.key, row]));
  const keys = [...new Set([...first.summary, ...second.summary].map(({ key }) => key))];
  const figureOf = ({ summary }: RunResult, key: string) =>
    summary.find((row) => row.key === key)?.value ?? null;
  return keys.map((key) => {
    const unit = rows.get(key)?.unit || null;
    const values = [figureOf(first, key), figureOf(second, key)] as const;
    return { key, label: rows.get(key)?.label ?? key, unit, values, change: changeOf(values, unit) };
  });
}

function changeOf([before, after]: Pair<Cell>, unit: string | null): number | null {
  // Times have no meaningful ratio.
  if (typeof before !== "number" || typeof after !== "number" || before === 0 || unit === "ms") return null;
  return (after / before - 1) * 100;
}

/** The parameters of two runs as text; a dash for one that a run does not have. */
export function comparedParameters(
  first: Record<string, unknown>,
  second: Record<string, unknown>,
): { name: string; values: Pair<string> }[] {
  const names = [...new Set([...Object.keys(first), ...Object.keys(second)])];
  return names.map((name) => ({ name, values: [textOf(first[name]), textOf(second[name])] }));
}

function textOf(value: unknown): string {
  if (value === undefined) return "—";
  return typeof value === "string" ? value : JSON.stringify(value);
}
