import { type ReactNode, useEffect, useRef, useState } from "react";
import styles from "./table.module.css";

export interface Column<Row> {
  key: string;
  header: string;
  headerHidden?: boolean; // for a column that explains itself, e.g. bars
  numeric?: boolean;
  grow?: boolean;
  cell: (row: Row) => ReactNode;
}

/** A small table of rows already at hand. Long lists use the virtual grid instead. */
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
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    <div
      ref={box}
      className={styles.box}
      style={maxHeight ? { maxHeight } : undefined}
      {...(scrolls ? { tabIndex: 0, role: "group", "aria-label": caption } : {})}
    >
      <table className={styles.table}>
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" className={classOf(column)}>
                {column.headerHidden ? (
                  <span className="visually-hidden">{column.header}</span>
                ) : (
                  column.header
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={rowKey(row, index)}>
              {columns.map((column) => (
                <td key={column.key} className={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf(column: { numeric?: boolean; grow?: boolean }): string | undefined {
  return (
    [column.numeric && styles.numeric, column.grow && styles.grow].filter(Boolean).join(" ") || undefined
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
