import { Button } from "@mantine/core";
import { useMemo, useState } from "react";
import type { Cell, ResultTable, RunResult, Series } from "../../api/types";
import { bytes, count, dateTime, plural, time, valueAndUnit, withUnit } from "../../lib/format";
import { toLocalInput } from "../../lib/local-time";
import { BarList } from "../../ui/charts/bar-list";
import { LazyChart } from "../../ui/charts/lazy-chart";
import { Stats } from "../../ui/charts/stats";
import { Copy } from "../../ui/copy";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty } from "../../ui/states";
import styles from "./analyses.module.css";
import { pathOf } from "./run/result-paths";
import { resultInLanguage } from "./run/result-words";

/** A longer text is no figure, such as a folder or positions. */
const FIGURE_CHARS = 24;
/** A table of more columns has the width of the page. */
const NARROW_COLUMNS = 4;
/** Rows of a table that are shown at once. */
const PAGE_ROWS = 100;
const PAGES = { display: "flex", alignItems: "center", gap: 10, padding: "8px 16px" };

/** The data that a run read, as far as its analysis counts it: an analysis of a tenant need not read ledgers. */
export function amountsOf({ messages, entries, ledgers, bytes: size }: RunResult["input"]): string {
  const parts = [
    messages !== undefined && plural(messages, "message"),
    entries !== undefined && plural(entries, "entry", "entries"),
    ledgers !== undefined && plural(ledgers, "ledger"),
    size !== undefined && bytes(size),
  ];
  return parts.filter(Boolean).join(", ");
}

/** A run's result: findings, then numbers, plots and tables, all from the fixed result schema. */
export function RunResultView({ result: given, cluster }: { result: RunResult; cluster: string }) {
  const result = useMemo(() => resultInLanguage(given), [given]);
  if (result.schema_version !== 1)
    return (
      <Panel title="Result">
        <Empty title={`This console cannot show results of schema version ${result.schema_version}`}>
          The downloads below hold the data.
        </Empty>
      </Panel>
    );
  const amounts = amountsOf(result.input);
  const isText = ({ value }: { value: Cell }) => typeof value === "string" && value.length > FIGURE_CHARS;
  const figures = result.summary.filter((item) => !isText(item));
  const texts = result.summary.filter(isText);
  return (
    <>
      {amounts && <p className={styles.input}>Read {amounts}</p>}
      {result.conclusions && result.conclusions.length > 0 && (
        <Panel title="In short">
          <ul className={styles.conclusions}>
            {result.conclusions.map((sentence) => (
              <li key={sentence} lang="en">
                {sentence}
              </li>
            ))}
          </ul>
          {result.links && result.links.length > 0 && (
            <ul className={styles.links} aria-label="Pages of what is named">
              {result.links.map(({ text, path }) => (
                <li key={path}>
                  <PathLink path={`/c/${encodeURIComponent(cluster)}${path}`}>{text}</PathLink>
                </li>
              ))}
            </ul>
          )}
        </Panel>
      )}
      {figures.length > 0 && (
        <Stats
          label="Summary of the result"
          stats={figures.map(({ label, value, unit }) => ({
            label,
            ...valueAndUnit(value, unit),
            long: unit === "ms" && typeof value === "number",
          }))}
        />
      )}
      {texts.length > 0 && (
        <dl className={styles.facts}>
          {texts.map(({ key, label, value }) => (
            <div key={key}>
              <dt>{label}</dt>
              <dd className="mono">
                {String(value)}
                <Copy value={String(value)} what={label} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      <div className={styles.plots}>
        {result.series.map((series) => (
          <Panel key={series.key} title={series.title} flush={isRanked(series)}>
            <Plot series={series} />
          </Panel>
        ))}
        {result.tables.map((table) => (
          <div key={table.key} className={table.columns.length > NARROW_COLUMNS ? styles.whole : undefined}>
            <Panel title={table.title} note={rowsOf(table)} flush>
              <ResultRows table={table} cluster={cluster} />
            </Panel>
          </div>
        ))}
      </div>
    </>
  );
}

/** Bars of named things are read as a ranked list; only ordered axes are drawn. */
function isRanked(series: Series): boolean {
  return series.kind === "bar" && series.x.type === "category";
}

function Plot({ series }: { series: Series }) {
  const { x, y, kind, points } = series;
  const data = useMemo(() => axesOf(series), [series]);
  if (points.length === 0) return <Empty title="No points" />;
  const yText = (value: number) => withUnit(value, y.unit);
  if (isRanked(series))
    return (
      <BarList
        caption={series.title}
        xLabel={x.label}
        yLabel={y.label}
        yText={yText}
        items={points.map(([label, value]) => ({ label: label === null ? "(none)" : String(label), value }))}
      />
    );
  const [only] = points;
  if (kind === "histogram" && points.length === 1 && only)
    return (
      <p style={{ margin: 0 }}>
        <b>{withUnit(only[1], y.unit)}</b> {data.xText(Number(only[0]))}
      </p>
    );
  const line = kind === "line";
  return (
    <LazyChart
      title={series.title}
      kind={line && x.type !== "category" ? "line" : "bars"}
      time={line && x.type === "time"}
      xs={data.xs}
      xLabel={x.label}
      xText={data.xText}
      yText={yText}
      tickText={(value) => valueAndUnit(value, y.unit).value}
      binary={y.unit === "bytes" || y.unit === "bytes/s"}
      height={200}
      series={
        data.partial.some((value) => value !== null)
          ? [
              { label: y.label, values: data.ys },
              { label: "Incomplete interval (first, last)", values: data.partial, dots: true },
            ]
          : [{ label: y.label, values: data.ys }]
      }
    />
  );
}

/**
 * Points as the chart wants them. Time axes become seconds; categories become their place in the list. A point that
 * is known in part only is not joined to the others: the line would show a fall where there was none.
 */
export function axesOf({ x, kind, points, partial = [] }: Series): {
  xs: number[];
  ys: (number | null)[];
  partial: (number | null)[];
  xText: (x: number) => string;
} {
  const inPart = new Set(partial);
  const ys = {
    ys: points.map(([at, value]) => (inPart.has(at) ? null : value)),
    partial: points.map(([at, value]) => (inPart.has(at) ? value : null)),
  };
  if (x.type === "category") {
    return {
      xs: points.map((_, index) => index),
      ...ys,
      xText: (index) => String(points[index]?.[0] ?? ""),
    };
  }
  const raw = points.map(([value]) => Number(value));
  if (x.type === "time") {
    const dayOf = (at = 0) => toLocalInput(at).slice(0, 10);
    const sameDay = dayOf(raw[0]) === dayOf(raw.at(-1));
    const text = sameDay ? time : dateTime;
    return { xs: raw.map((at) => at / 1000), ...ys, xText: (at) => text(at * 1000) };
  }
  return {
    xs: raw,
    ...ys,
    xText: (value) => (kind === "histogram" ? binText(value, x.unit) : withUnit(value, x.unit || null)),
  };
}

/** A bin of a histogram, which ends before the next power of two: "64–127 B". */
function binText(low: number, unit: string | null | undefined): string {
  const high = low * 2 - 1;
  const to = withUnit(high, unit || null);
  if (high <= low) return withUnit(low, unit || null);
  const from = withUnit(low, unit || null);
  const space = from.lastIndexOf(" ");
  // The unit once, where both ends have the same.
  const same = space > 0 && to.endsWith(from.slice(space));
  return `${same ? from.slice(0, space) : from}–${to}`;
}

export function ResultRows({ table, cluster }: { table: ResultTable; cluster: string }) {
  const { rows } = table;
  const keys = table.columns.map(({ key }) => key);
  const [asked, setAsked] = useState(0);
  const last = Math.max(0, Math.ceil(rows.length / PAGE_ROWS) - 1);
  const page = Math.min(asked, last); // the rows of a run under way may become fewer
  const first = page * PAGE_ROWS;
  const [only] = rows;
  if (only && rows.length === 1 && only.some(isLong))
    return (
      <dl className={`${styles.facts} ${styles.pad}`}>
        {table.columns.map(({ key, label, type }, index) => (
          <div key={key}>
            <dt>{label}</dt>
            <dd>
              <CellText value={only[index] ?? null} type={type} />
            </dd>
          </div>
        ))}
      </dl>
    );
  return (
    <>
      <Table<Cell[]>
        key={page} // a page begins with its first row in view
        caption={table.title}
        maxHeight={380}
        rows={rows.slice(first, first + PAGE_ROWS)}
        rowKey={(_, index) => index}
        empty={<Empty title="No rows" />}
        columns={table.columns.map((column, index) => ({
          key: column.key,
          header: column.label,
          numeric: isNumeric(column.type),
          cell: (row) => {
            const value = row[index] ?? null;
            const path = pathOf(column.key, (key) => row[keys.indexOf(key)] ?? null);
            if (path === null) return <CellText value={value} type={column.type} />;
            return (
              <PathLink path={`/c/${encodeURIComponent(cluster)}${path}`}>
                {shortened(String(value))}
              </PathLink>
            );
          },
        }))}
      />
      {rows.length > PAGE_ROWS && (
        <nav aria-label={`Pages of ${table.title}`} style={PAGES}>
          <PageButton text="Previous" isEnd={page === 0} onClick={() => setAsked(page - 1)} />
          <span aria-live="polite">
            {`Rows ${count(first + 1)}–${count(Math.min(first + PAGE_ROWS, rows.length))} of ${count(rows.length)}`}
          </span>
          <PageButton text="Next" isEnd={page === last} onClick={() => setAsked(page + 1)} />
        </nav>
      )}
    </>
  );
}

/** Does nothing at the end, and keeps the focus. */
function PageButton({ text, isEnd, onClick }: { text: string; isEnd: boolean; onClick: () => void }) {
  return (
    <Button
      variant="default"
      size="compact-sm"
      aria-disabled={isEnd}
      data-disabled={isEnd}
      onClick={isEnd ? undefined : onClick}
    >
      {text}
    </Button>
  );
}

/** The number of rows that a table has, and of how many where it has the first only. */
export function rowsOf({ rows, total = rows.length, at_least }: ResultTable): string {
  if (total === rows.length) return plural(total, "row");
  const least = at_least ? "at least " : "";
  return `${count(rows.length)} of ${least}${plural(total, "row")}`;
}

/** A topic's name without its domain, which all topics with pages share. */
function shortened(name: string): string {
  return name.replace(/^persistent:\/\//, "");
}

/** A text that one line of a table cannot show. */
function isLong(value: Cell): boolean {
  return typeof value === "string" && (value.includes("\n") || value.length > 200);
}

function isNumeric(type: string): boolean {
  return ["integer", "number", "int", "float", "bytes", "ratio", "percent", "count"].includes(type);
}

function CellText({ value, type }: { value: Cell; type: string }) {
  if (typeof value === "string" && value.includes("\n")) return <pre className={styles.lines}>{value}</pre>;
  if (typeof value === "string")
    return <span className={type === "id" || type === "key" ? "mono" : undefined}>{value}</span>;
  if (typeof value === "number" && (type === "time" || type === "epoch_ms")) return dateTime(value);
  if (typeof value === "number" && (type === "integer" || type === "int" || type === "count"))
    return count(value);
  return withUnit(value, type === "bytes" || type === "ratio" || type === "percent" ? type : null);
}
