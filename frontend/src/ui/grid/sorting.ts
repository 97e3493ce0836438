/** The next sort when a column's header is activated: numbers start at the largest, names at A. */
export function nextSort<Key extends string>(
  current: string,
  column: Key,
  startDescending: boolean,
): Key | `-${Key}` {
  if (current === column) return `-${column}`;
  if (current === `-${column}`) return column;
  return startDescending ? `-${column}` : column;
}

/** The sort order of a column, in ARIA's terms. */
export function sortOf(current: string, column: string): "ascending" | "descending" | "none" {
  if (current === column) return "ascending";
  return current === `-${column}` ? "descending" : "none";
}
