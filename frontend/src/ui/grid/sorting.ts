/** An order: a field, "-" in front for descending. */
export type Sort<Key extends string> = Key | `-${Key}`;
export type Order = "ascending" | "descending" | "none";

/** The order that a header shows, in ARIA's terms, and what activating it does. */
export interface Sortable {
  sort: Order;
  onSort: () => void;
}

/** The next sort when a column's header is activated: numbers start at the largest, names at A. */
export function nextSort<Key extends string>(
  current: string,
  column: Key,
  startDescending: boolean,
): Sort<Key> {
  if (current === column) return `-${column}`;
  if (current === `-${column}`) return column;
  return startDescending ? `-${column}` : column;
}

/** The sort order of a column, in ARIA's terms. */
export function sortOf(current: string, column: string): Order {
  if (current === column) return "ascending";
  return current === `-${column}` ? "descending" : "none";
}

/** The order that an address names; `fallback` where it names none, or one that the list does not have. */
export function sortIn<Key extends string>(
  fields: readonly Key[],
  text: string | undefined,
  fallback: Sort<Key>,
): Sort<Key> {
  const field = text?.replace(/^-/, "");
  return fields.some((known) => known === field) ? (text as Sort<Key>) : fallback;
}

/** The sortable part of a column, by its field. */
export type SortableBy<Key extends string> = (key: Key, startDescending?: boolean) => Sortable;

/** Returns the sortable part of a column by its field. `write` receives the order to show. */
export function sorting<Key extends string>(
  current: string,
  write: (next: Sort<Key>) => void,
): SortableBy<Key> {
  return (key, startDescending = false) => ({
    sort: sortOf(current, key),
    onSort: () => write(nextSort(current, key, startDescending)),
  });
}

/** Rows at hand in an order; unknown values are last in both directions, and equal rows stay as they are. */
export function sortedRows<Row, Field extends string>(
  rows: readonly Row[],
  sort: Sort<Field>,
  figureOf: (row: Row, field: Field) => string | number | null,
): Row[] {
  const field = sort.replace(/^-/, "") as Field;
  const sign = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [figureOf(a, field), figureOf(b, field)];
    if (left === right) return 0;
    if (left === null) return 1;
    if (right === null) return -1;
    return left < right ? -sign : sign;
  });
}
