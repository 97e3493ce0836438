import { useMantineColorScheme } from "@mantine/core";
import { type ReactNode, useContext, useEffect, useId, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { LANGUAGE } from "../../lib/words";
import { ZONE } from "../../lib/zone";
import "uplot/dist/uPlot.min.css";
import { Table } from "../grid/table";
import { TableIcon } from "../icons";
import { StaleContext } from "../states";
import styles from "./chart.module.css";
import { spikeOf } from "./spike";

export interface ChartSeries {
  label: string;
  values: (number | null)[];
  dots?: boolean; // single points, not joined by a line
  dashed?: boolean; // of another time than the others
}

export interface ChartProps {
  title: string;
  kind: "line" | "bars";
  xs: number[]; // seconds since the epoch when `time`, else numbers; bars use their order and `xText`
  xLabel: string;
  xText: (x: number) => string;
  time?: boolean;
  live?: boolean; // growing at its right end: shows the last values and at least a minute
  now?: (number | null)[]; // of each series, for the legend of a live chart; default: its last point, a mean of some time
  binary?: boolean; // ticks at powers of two, for bytes
  series: ChartSeries[];
  yText: (y: number) => string;
  tickText?: (y: number) => string; // shorter text for the axis, default `yText`
  yLabel?: string;
  height?: number;
  over?: Over | undefined; // drawn at the lower edge of the plot of a line over time
}

/** `from` and `to`: the times at the ends of the plot, in seconds since the epoch. */
export type Over = (title: string, from: number, to: number) => ReactNode;

const COLOURS = 4;
const LIVE_SPAN_S = 60;
// Sizes of the axes and of the space beyond the last time; `.over` in the sheet repeats them.
const X_AXIS_PX = 28;
const Y_AXIS_PX = 72;
const BEYOND_PX = 30;
const SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800,
];
const POWERS_OF_TWO = Array.from({ length: 61 }, (_, power) => 2 ** power);

/** The one chart: a canvas for eyes, a text summary for ears, and the same data as a table for both. */
export function Chart(props: ChartProps) {
  const [asTable, setAsTable] = useState(false);
  const summaryId = useId();
  const stale = useContext(StaleContext);
  const { title, series, xs, live = false } = props;
  const [isWhole, setWhole] = useState(false);
  const spike = useMemo(() => (live ? spikeOf(series) : null), [live, series]);
  return (
    <figure className={styles.figure} aria-labelledby={summaryId}>
      <div className={styles.head}>
        <ul className={styles.legend} aria-hidden="true">
          {series.map((each, index) => (
            <li key={each.label}>
              <span
                className={styles.swatch}
                style={{ background: `var(--series-${(index % COLOURS) + 1})` }}
              />
              {each.label}
              {props.live && (
                <b>{lastOf(props.now ? [null, props.now[index] ?? null] : each.values, props.yText)}</b>
              )}
            </li>
          ))}
        </ul>
        {props.live && stale && <span className={styles.stale}>{stale}</span>}
        <button
          type="button"
          className={styles.twin}
          aria-pressed={asTable}
          onClick={() => setAsTable(!asTable)}
        >
          <TableIcon size={14} />
          {asTable ? "Show as chart" : "Show as table"}
          <span className="visually-hidden">: {title}</span>
        </button>
      </div>
      <figcaption id={summaryId} className="visually-hidden">
        {summarise(props)}
      </figcaption>
      {asTable ? (
        <Twin {...props} />
      ) : xs.length === 0 ? (
        <Waiting height={props.height} />
      ) : (
        <div className={styles.plot}>
          <Canvas {...props} cut={spike && !isWhole ? spike.cut : null} />
          {props.over && <div className={styles.over}>{props.over(title, ...spanOf(xs, live))}</div>}
        </div>
      )}
      {spike && !asTable && (
        <button
          type="button"
          className={styles.cut}
          aria-pressed={isWhole}
          onClick={() => setWhole(!isWhole)}
        >
          {isWhole
            ? "Cut the axis"
            : `↑ Axis cut: peak ${props.yText(spike.peak)} at ${props.xText(xs[spike.index] ?? 0)}. Show it`}
          <span className="visually-hidden">: {title}</span>
        </button>
      )}
    </figure>
  );
}

/** The times at the ends of the plot. A live one shows at least a minute. */
function spanOf(xs: readonly number[], live: boolean): [number, number] {
  const first = xs[0] ?? 0;
  const last = xs.at(-1) ?? 0;
  return [live ? Math.min(first, last - LIVE_SPAN_S) : first, last];
}

function Waiting({ height = 180 }: { height?: number | undefined }) {
  return (
    <div className={styles.waiting} style={{ height }}>
      No points yet
    </div>
  );
}

function Twin({ title, xs, xLabel, xText, series, yText, kind }: ChartProps) {
  const rows = xs.map((x, index) => ({ x, index }));
  if (kind === "line") rows.reverse();
  return (
    <Table
      caption={title}
      maxHeight={260}
      rows={rows}
      rowKey={(row) => row.index}
      columns={[
        { key: "x", header: xLabel, cell: (row) => xText(row.x) },
        ...series.map((each) => ({
          key: each.label,
          header: each.label,
          numeric: true,
          cell: (row: { index: number }) => {
            const value = each.values[row.index];
            return value === null || value === undefined ? "—" : yText(value);
          },
        })),
      ]}
    />
  );
}

/** `cut`: where the axis ends although values lie above; null: it holds all. */
type CanvasProps = ChartProps & { cut: number | null };

function Canvas(props: CanvasProps) {
  const { height = 180, kind, xs, series, time = false, cut } = props;
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const { colorScheme } = useMantineColorScheme();
  const data = useMemo(
    () =>
      [
        kind === "bars" ? xs.map((_, index) => index) : xs,
        ...series.map((each) => each.values),
      ] as uPlot.AlignedData,
    [kind, xs, series],
  );
  const labels = series.map((each) => each.label).join("\n");

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new look needs a new plot; data goes in below
  useEffect(() => {
    const box = host.current;
    if (!box) return;
    const look = lookOf(box);
    const width = () => Math.max(120, Math.floor(box.clientWidth));
    const made = new uPlot(optionsOf(latest, look, width(), height, kind, time, tip), data, box);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: width(), height }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [colorScheme, kind, time, height, labels]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the axis follows the cut as it follows the data
  useEffect(() => {
    plot.current?.setData(data);
  }, [data, cut]);

  return (
    <div className={styles.canvas} aria-hidden="true">
      <div ref={host} style={{ minHeight: height }} />
      <div ref={tip} className={styles.tip} hidden />
    </div>
  );
}

interface Look {
  text: string;
  grid: string;
  bar: string;
  lines: string[];
  font: string;
}

function lookOf(box: HTMLElement): Look {
  const style = getComputedStyle(box);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: read("--dim"),
    grid: read("--chart-grid"),
    bar: read("--bar"),
    lines: Array.from({ length: COLOURS }, (_, index) => read(`--series-${index + 1}`)),
    font: `11.5px ${style.fontFamily}`,
  };
}

function optionsOf(
  latest: { current: CanvasProps },
  look: Look,
  width: number,
  height: number,
  kind: ChartProps["kind"],
  time: boolean,
  tip: { current: HTMLDivElement | null },
): uPlot.Options {
  const axis = {
    stroke: look.text,
    font: look.font,
    ticks: { show: false },
    grid: { stroke: look.grid, width: 1 },
  };
  const bars = kind === "bars";
  const xText = (value: number) => {
    const { xs, xText: text } = latest.current;
    if (!bars) return text(value);
    const x = Number.isInteger(value) ? xs[value] : undefined;
    return x === undefined ? "" : text(x);
  };
  const zone = ZONE;
  return {
    width,
    height,
    legend: { show: false },
    ...(zone ? { tzDate: (at: number) => uPlot.tzDate(new Date(at * 1000), zone) } : {}),
    padding: [10, time ? BEYOND_PX : 8, 0, 0], // half of the last time at the axis is beyond the plot
    cursor: { y: false, points: { show: !bars, size: 7 }, drag: { x: false, y: false } },
    scales: {
      x: bars
        ? { time: false, range: (_u, _min, max) => [-0.6, Math.max(0.6, max + 0.6)] }
        : {
            time,
            ...(latest.current.live
              ? { range: (_u, min, max) => [Math.min(min, max - LIVE_SPAN_S), max] }
              : {}),
          },
      y: { range: (_u, _min, max) => [0, latest.current.cut ?? (max > 0 ? max * 1.1 : 1)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: X_AXIS_PX,
        space: bars ? 64 : 80,
        ...(bars ? { incrs: [1, 2, 4, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}),
        ...(time ? {} : { values: (_u: uPlot, splits: number[]) => splits.map(xText) }),
        ...(time ? { values: TIME_LABELS, incrs: SECONDS } : {}),
      },
      {
        ...axis,
        size: Y_AXIS_PX,
        space: 34,
        ...(latest.current.binary ? { incrs: POWERS_OF_TWO } : {}),
        values: (_u, splits) =>
          splits.map((value) => (latest.current.tickText ?? latest.current.yText)(value)),
      },
    ],
    series: [
      {},
      ...latest.current.series.map((each, index) => {
        const stroke = look.lines[index % COLOURS] ?? look.text;
        return {
          label: each.label,
          stroke,
          width: bars || each.dots ? 0 : 1.75,
          points: each.dots
            ? { show: true, size: 7, width: 1.5, stroke, fill: "transparent" }
            : { show: false },
          spanGaps: false,
          ...(each.dashed ? { dash: [5, 4] } : {}),
          ...(bars
            ? {
                fill: stroke,
                paths: uPlot.paths.bars?.({ size: [0.8, 64], radius: 0.08 }) as uPlot.Series.PathBuilder,
              }
            : index === 0 && !each.dots
              ? { fill: `${stroke}1c` }
              : {}),
        };
      }),
    ],
    hooks: { setCursor: [(u) => showTip(u, tip.current, latest.current, xText)] },
  };
}

const DAY = LANGUAGE === "de" ? "{DD}.{MM}." : "{MMM} {DD}";
const TIME_LABELS: uPlot.Axis.Values = [
  [86_400, DAY, null, null, null, null, null, null, 1],
  [3_600, "{HH}:{mm}", `\n${DAY}`, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

function showTip(
  u: uPlot,
  tip: HTMLDivElement | null,
  props: ChartProps,
  xText: (x: number) => string,
): void {
  if (!tip) return;
  const index = u.cursor.idx;
  const left = u.cursor.left ?? -1;
  const x = index === null || index === undefined ? undefined : u.data[0][index];
  tip.hidden = x === undefined || left < 0;
  if (x === undefined || index === null || index === undefined) return;
  const values = props.series.map((each) => {
    const value = each.values[index];
    return `${each.label} ${value === null || value === undefined ? "—" : props.yText(value)}`;
  });
  tip.textContent = [xText(x), ...values].join("  ·  ");
  const offset = u.bbox.left / devicePixelRatio + left;
  tip.style.left = `${Math.min(Math.max(0, offset - tip.offsetWidth / 2), u.width - tip.offsetWidth)}px`;
}

function lastOf(values: (number | null)[], yText: (y: number) => string): string {
  if (values.length < 2) return "";
  const last = values.at(-1);
  return last === null || last === undefined ? "" : yText(last);
}

/** The chart in one sentence per series. */
export function summarise({ title, xs, xText, series, yText, kind }: ChartProps): string {
  const first = xs[0];
  const last = xs.at(-1);
  if (first === undefined || last === undefined) return `${title}: no points yet.`;
  const noun = kind === "bars" ? "bar" : "point";
  const span =
    xs.length === 1
      ? `1 ${noun} at ${xText(first)}`
      : `${xs.length} ${noun}s from ${xText(first)} to ${xText(last)}`;
  const each = series.map(({ label, values }) => {
    const known = values.filter((value): value is number => value !== null);
    if (known.length === 0) return `${label}: no values`;
    const high = Math.max(...known);
    const at = xs[values.indexOf(high)] ?? first;
    const end = values.at(-1) ?? null;
    return `${label}: lowest ${yText(Math.min(...known))}, highest ${yText(high)} at ${xText(at)}, last ${end === null ? "not known" : yText(end)}`;
  });
  return `${title}: ${span}. ${each.join(". ")}.`;
}
