import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import styles from "./data-grid.module.css";
import { fitting, type Sized } from "./fitting";
import { clampToGrid, type GridPosition, moveInGrid } from "./grid-keys";

export interface GridColumn<Row> extends Sized {
  key: string;
  header: string;
  numeric?: boolean;
  sort?: "ascending" | "descending" | "none";
  onSort?: () => void;
  cell: (row: Row, hasOwnLine: boolean) => ReactNode; // true: of the first column of a narrow grid
}

export interface DataGridProps<Row> {
  label: string;
  columns: GridColumn<Row>[]; // the first one names the row
  total: number;
  rowAt: (index: number) => Row | undefined; // undefined: not here yet
  onRange?: (first: number, last: number) => void; // visible rows, inclusive
  onOpen: (row: Row) => void;
  busy: boolean;
  onLeftOut?: (count: number) => void; // columns that there is no room for
  resetKey: string; // when it changes the list is another one: back to its top
  maxHeight?: number; // as high as its rows, up to this; without it as high as its container
}

const LINE = { row: 36, header: 36 };
const TWO_LINES = { row: 58, header: 54 };
const OVERSCAN = 6;
const ROW_PADDING = 12;
const BORDERS = 3; // of the box, and below the header

/**
 * A window on a list of any length: only the rows on screen are in the document. It follows the ARIA grid
 * pattern: one tab stop, arrows move a cell at a time, Enter opens the row or sorts by the column.
 */
export function DataGrid<Row>(props: DataGridProps<Row>) {
  const {
    label,
    columns: given,
    total,
    rowAt,
    onRange,
    onOpen,
    busy,
    resetKey,
    onLeftOut,
    maxHeight,
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const width = useWidth(scroller);
  const { columns, twoLines, template, left } = useMemo(() => fitting(given, width), [given, width]);
  const heights = twoLines ? TWO_LINES : LINE;
  useEffect(() => onLeftOut?.(left), [left, onLeftOut]);
  const [active, setActive] = useState<GridPosition>({ row: 0, column: 0 });
  const wantsFocus = useRef(false);
  const at = clampToGrid(active, { rows: total, columns: columns.length });

  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => heights.row,
    overscan: OVERSCAN,
    scrollPaddingStart: heights.header, // the sticky header covers this much
    // The active row stays in the document when scrolled away, or the focus would fall to the page.
    rangeExtractor: useCallback(
      (range: Parameters<typeof defaultRangeExtractor>[0]) => {
        const shown = defaultRangeExtractor(range);
        const kept = at.row - 1;
        if (kept < 0 || kept >= range.count || shown.includes(kept)) return shown;
        return kept < (shown[0] ?? 0) ? [kept, ...shown] : [...shown, kept];
      },
      [at.row],
    ),
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: rows have another height now
  useLayoutEffect(() => virtual.measure(), [heights.row]);

  const range = virtual.range;
  const first = range?.startIndex ?? 0;
  const last = range?.endIndex ?? 0;
  useEffect(() => onRange?.(first, last), [first, last, onRange]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list starts at its top
  useLayoutEffect(() => {
    if (scroller.current) scroller.current.scrollTop = 0;
    setActive((before) => ({ row: Math.min(before.row, 1), column: before.column }));
  }, [resetKey]);

  useEffect(() => {
    if (!wantsFocus.current) return;
    const cell = scroller.current?.querySelector<HTMLElement>(`[data-cell="${at.row}:${at.column}"]`);
    if (!cell) return;
    wantsFocus.current = false;
    cell.focus({ preventScroll: true });
    cell.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  });

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      if ((event.target as HTMLElement).closest("a, button")) return;
      event.preventDefault();
      if (at.row === 0) columns[at.column]?.onSort?.();
      else {
        const row = rowAt(at.row - 1);
        if (row !== undefined) onOpen(row);
      }
      return;
    }
    const page = Math.floor((scroller.current?.clientHeight ?? 400) / heights.row) - 1;
    const to = moveInGrid(
      at,
      { key: event.key, ctrl: event.ctrlKey },
      { rows: total, columns: columns.length, page },
    );
    if (!to) return;
    event.preventDefault();
    wantsFocus.current = true;
    if (to.row > 0) virtual.scrollToIndex(to.row - 1, { align: "auto" });
    setActive({ ...to });
  };

  const focusCell = useCallback((row: number, column: number) => {
    setActive((before) => (before.row === row && before.column === column ? before : { row, column }));
  }, []);
  const latestOpen = useRef(onOpen);
  latestOpen.current = onOpen;
  const open = useCallback((row: Row) => latestOpen.current(row), []);

  return (
    <div
      ref={scroller}
      className={`${styles.scroller} ${twoLines ? styles.twoLines : ""}`}
      role="grid"
      aria-label={label}
      aria-rowcount={total + 1}
      aria-colcount={columns.length}
      aria-busy={busy}
      onKeyDown={onKeyDown}
      tabIndex={-1}
      style={maxHeight ? heightOf(heights, total, maxHeight) : undefined}
    >
      <div role="rowgroup" className={styles.header}>
        <div role="row" aria-rowindex={1} className={styles.row} style={{ gridTemplateColumns: template }}>
          {columns.map((column, index) => (
            // Enter and Space sort too, in the grid's key handler.
            <div
              key={column.key}
              role="columnheader"
              aria-colindex={index + 1}
              aria-sort={column.sort}
              className={`${styles.head} ${column.numeric ? styles.numeric : ""} ${column.onSort ? styles.sortable : ""}`}
              onClick={column.onSort}
              data-cell={`0:${index}`}
              tabIndex={at.row === 0 && at.column === index ? 0 : -1}
              onFocus={() => focusCell(0, index)}
            >
              {column.header}
              {column.sort && column.sort !== "none" && (
                <span className={styles.arrow} aria-hidden="true">
                  {column.sort === "ascending" ? "↑" : "↓"}
                </span>
              )}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rowAt(item.index);
          return (
            <GridRow
              key={item.index} // by place: a new row must not move the focus off its cell
              row={row}
              index={item.index}
              start={item.start}
              columns={columns as GridColumn<unknown>[]}
              template={template}
              twoLines={twoLines}
              activeColumn={at.row === item.index + 1 ? at.column : null}
              onFocusCell={focusCell}
              onOpen={open as (row: unknown) => void}
            />
          );
        })}
      </div>
    </div>
  );
}

function heightOf({ row, header }: typeof LINE, total: number, most: number) {
  return { height: Math.min(most, header + total * row + BORDERS), minHeight: 0 };
}

/** The width inside of a box's border and scroll bar; 0 before the first measure. */
function useWidth(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setWidth(element.clientWidth - ROW_PADDING);
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, [box]);
  return Math.max(0, width);
}

interface GridRowProps {
  row: unknown;
  index: number;
  twoLines: boolean;
  start: number;
  columns: GridColumn<unknown>[];
  template: string;
  activeColumn: number | null;
  onFocusCell: (row: number, column: number) => void;
  onOpen: (row: unknown) => void;
}

/** Rendered again only when its own data or focus changes: scrolling then costs the rows that come in. */
const GridRow = memo(function GridRow({
  row,
  index,
  twoLines,
  start,
  columns,
  template,
  activeColumn,
  onFocusCell,
  onOpen,
}: GridRowProps) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={`${styles.row} ${styles.dataRow} ${row === undefined ? styles.absent : ""}`}
      style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
      onClick={(event) => {
        const target = event.target as HTMLElement;
        if (row === undefined || target.closest("a, button") || getSelection()?.toString()) return;
        onOpen(row);
      }}
    >
      {columns.map((column, place) => (
        <div
          key={column.key}
          role="gridcell"
          aria-colindex={place + 1}
          className={`${styles.cell} ${column.numeric ? styles.numeric : ""}`}
          data-cell={`${index + 1}:${place}`}
          tabIndex={activeColumn === place ? 0 : -1}
          onFocus={() => onFocusCell(index + 1, place)}
        >
          {row === undefined ? (
            <span className={styles.ghost}>&nbsp;</span>
          ) : (
            column.cell(row, twoLines && place === 0)
          )}
        </div>
      ))}
    </div>
  );
});
