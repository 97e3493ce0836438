export interface Sized {
  min: number; // px
  narrow?: number; // px on two lines; without it a share by `min`
  grow?: number; // share of the remaining width, as of CSS fr
  always?: boolean; // shown at every width
}

/** Narrower grids give the first column a line of its own. */
export const NARROW_PX = 600;

export interface Layout<Column> {
  columns: Column[];
  twoLines: boolean;
  template: string; // of CSS grid-template-columns; on two lines of the second
  left: number; // columns that there is no room for
}

/**
 * The columns that a box has room for, in their order: those shown always, and of the others as many from
 * the front as fit. `width` 0: not measured yet, everything on one line.
 */
export function fitting<Column extends Sized>(columns: readonly Column[], width: number): Layout<Column> {
  const twoLines = width > 0 && width < NARROW_PX;
  const [first, ...others] = columns;
  const need = ({ min, narrow }: Sized) => (twoLines ? (narrow ?? min) : min);
  let room = (width || Number.POSITIVE_INFINITY) - (twoLines ? 0 : (first?.min ?? 0));
  for (const column of others) if (column.always) room -= need(column);
  let full = false;
  const shown = others.filter((column) => {
    if (column.always) return true;
    full ||= need(column) > room;
    if (!full) room -= need(column);
    return !full;
  });
  return {
    columns: first ? [first, ...shown] : [],
    twoLines,
    template: twoLines
      ? shown.map(({ min, narrow }) => (narrow ? `${narrow}px` : `minmax(0, ${min}fr)`)).join(" ")
      : [...(first ? [first] : []), ...shown]
          .map((column) => `minmax(${column.min}px, ${column.grow ?? 0.4}fr)`)
          .join(" "),
    left: others.length - shown.length,
  };
}
