import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import type { Order, Sortable } from "./sorting";
import styles from "./table.module.css";

export interface Column<Row> {
  key: string;
  header: string;
  headerHidden?: boolean; // for a column that explains itself, e.g. bars
  numeric?: boolean;
  grow?: boolean;
  wide?: boolean; // left out on a phone
  sort?: Order;
  onSort?: () => void;
  cell: (row: Row) => ReactNode;
}

/** Above this number only the visible rows are in the document, where the table's height is limited. */
export const ALL_MAX = 60;

/** A table of rows at hand: all, or a page of those that the server sorts. Lists without pages use the grid. */
export function Table<Row>({
  caption,
  columns,
  rows,
  rowKey,
  empty,
  maxHeight,
}: {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row, index: number) => string | number;
  empty?: ReactNode;
  maxHeight?: number;
}) {
  const [box, scrolls] = useOverflow();
  const shown = useWindow(box, rows.length, maxHeight);
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    <div
      ref={box}
      className={styles.box}
      style={maxHeight ? { maxHeight } : undefined}
      {...(scrolls ? { tabIndex: 0, role: "group", "aria-label": caption } : {})}
    >
      {/* The room of rows that are not in the document. */}
      <div style={{ paddingTop: shown?.above, paddingBottom: shown?.below }}>
        <table className={styles.table} aria-rowcount={shown ? rows.length + 1 : undefined}>
          <caption className="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.key} scope="col" className={classOf(column)} aria-sort={column.sort}>
                  {column.headerHidden ? (
                    <span className="visually-hidden">{column.header}</span>
                  ) : column.onSort ? (
                    <SortButton header={column.header} sort={column.sort} onSort={column.onSort} />
                  ) : (
                    column.header
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(shown?.first, shown?.end).map((row, place) => {
              const index = place + (shown?.first ?? 0);
              return (
                <tr key={rowKey(row, index)} aria-rowindex={shown ? index + 2 : undefined}>
                  {columns.map((column) => (
                    <td key={column.key} className={classOf(column)}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function SortButton({
  header,
  sort,
  onSort,
}: {
  header: string;
  sort: Order | undefined;
  onSort: () => void;
}) {
  return (
    <button type="button" className={styles.sort} onClick={onSort}>
      {header}
      {sort && sort !== "none" && <span aria-hidden="true">{sort === "ascending" ? " ↑" : " ↓"}</span>}
    </button>
  );
}

/** The headers of a list whose items are no rows of a table. */
export function SortBar({ columns }: { columns: readonly ({ header: string } & Sortable)[] }) {
  return (
    <div role="group" aria-label="Order of the list" className={styles.bar}>
      {columns.map(({ header, sort, onSort }) => (
        <span key={header} aria-current={sort !== "none" || undefined}>
          <SortButton header={header} sort={sort} onSort={onSort} />
          {sort === "ascending" && <span className="visually-hidden">ascending</span>}
          {sort === "descending" && <span className="visually-hidden">descending</span>}
        </span>
      ))}
    </div>
  );
}

const ROW_PX = 36;
const OVERSCAN = 8;

/** The rows in the document, and the height of the others; null: all of them. */
function useWindow(box: RefObject<HTMLElement | null>, count: number, maxHeight: number | undefined) {
  const isLong = maxHeight !== undefined && count > ALL_MAX;
  const [top, setTop] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!isLong || !element) return;
    const look = () => setTop(Math.floor(element.scrollTop / ROW_PX));
    look();
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [box, isLong]);
  if (!isLong) return null;
  const first = Math.max(0, Math.min(top, count - 1) - OVERSCAN);
  const end = Math.min(count, top + Math.ceil(maxHeight / ROW_PX) + OVERSCAN);
  return { first, end, above: first * ROW_PX, below: (count - end) * ROW_PX };
}

function classOf(column: { numeric?: boolean; grow?: boolean; wide?: boolean }): string | undefined {
  return (
    [column.numeric && styles.numeric, column.grow && styles.grow, column.wide && styles.wide]
      .filter(Boolean)
      .join(" ") || undefined
  );
}

/** Whether a box scrolls: only then it must be a tab stop. */
function useOverflow() {
  const ref = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const box = ref.current;
    if (!box) return;
    const look = () =>
      setScrolls(box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1);
    const observer = new ResizeObserver(look);
    observer.observe(box);
    if (box.firstElementChild) observer.observe(box.firstElementChild);
    look();
    return () => observer.disconnect();
  }, []);
  return [ref, scrolls] as const;
}
