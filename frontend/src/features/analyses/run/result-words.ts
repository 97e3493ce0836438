import type { Cell, ResultTable, RunResult, Series } from "../../../api/types";
import { localized } from "../../../lib/language/sentences";
import { LANGUAGE } from "../../../lib/words";

/** Units that are words. The others are formats of numbers. */
const WORD_UNITS = new Set(["messages", "messages/s"]);
/** Figures whose value is a word. */
const WORD_FIGURES = new Set(["complete", "more"]);
/** Columns whose cells are words of the analysis; those of other columns come from messages and names. */
const WORD_COLUMNS = new Set([
  ...["held_by", "kind", "change", "confidence", "data"],
  ...["known", "unjudged", "why", "problem", "fits"],
]);
/** Series along named parts of the analysis itself. */
const WORD_SERIES = new Set(["holders"]);
/** The table of a query has columns of any name. */
const GIVEN_TABLE = "shown_rows";

/** A result with its labels, units and words in the console's language. Conclusions are looked up where they are shown,
 * so that one without German is marked. */
export function resultInLanguage(result: RunResult): RunResult {
  if (LANGUAGE === "en" || result.schema_version !== 1) return result;
  return {
    ...result,
    ...(result.links && {
      links: result.links.map((link) => ({ ...link, text: localized(link.text) })),
    }),
    summary: result.summary.map(({ key, label, value, unit }) => ({
      key,
      label: localized(label),
      value: WORD_FIGURES.has(key) ? word(value) : value,
      ...(unit != null && { unit: unitInLanguage(unit) }),
    })),
    series: result.series.map(seriesInLanguage),
    tables: result.tables.map(tableInLanguage),
  };
}

export const unitInLanguage = (unit: string) => (WORD_UNITS.has(unit) ? localized(unit) : unit);

const word = (value: Cell) => (typeof value === "string" ? localized(value) : value);

function seriesInLanguage(series: Series): Series {
  const { key, title, x, y, points } = series;
  return {
    ...series,
    title: localized(title),
    x: { ...x, label: localized(x.label) },
    y: { ...y, label: localized(y.label), ...(y.unit != null && { unit: unitInLanguage(y.unit) }) },
    points: WORD_SERIES.has(key) ? points.map(([at, value]) => [word(at), value]) : points,
  };
}

function tableInLanguage(table: ResultTable): ResultTable {
  const title = localized(table.title);
  if (table.key === GIVEN_TABLE) return { ...table, title };
  const isWord = table.columns.map(({ key }) => WORD_COLUMNS.has(key));
  return {
    ...table,
    title,
    columns: table.columns.map((column) => ({ ...column, label: localized(column.label) })),
    rows: isWord.includes(true)
      ? table.rows.map((row) => row.map((cell, index) => (isWord[index] ? word(cell) : cell)))
      : table.rows,
  };
}
