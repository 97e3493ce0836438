export interface GridPosition {
  row: number; // 0 is the header, 1 the first row of data
  column: number;
}

export interface GridShape {
  rows: number; // rows of data
  columns: number;
  page: number; // rows that fit on screen
}

export interface KeyPress {
  key: string;
  ctrl: boolean;
}

/** The target of a key in a grid, by the ARIA grid pattern; null for keys that the grid does not handle. */
export function moveInGrid(at: GridPosition, press: KeyPress, shape: GridShape): GridPosition | null {
  const target = targetOf(at, press, shape);
  return target && clampToGrid(target, shape);
}

export function clampToGrid(at: GridPosition, shape: Pick<GridShape, "rows" | "columns">): GridPosition {
  return {
    row: Math.max(0, Math.min(shape.rows, at.row)),
    column: Math.max(0, Math.min(shape.columns - 1, at.column)),
  };
}

function targetOf(at: GridPosition, { key, ctrl }: KeyPress, shape: GridShape): GridPosition | null {
  switch (key) {
    case "ArrowDown":
      return { ...at, row: at.row + 1 };
    case "ArrowUp":
      return { ...at, row: at.row - 1 };
    case "ArrowRight":
      return { ...at, column: at.column + 1 };
    case "ArrowLeft":
      return { ...at, column: at.column - 1 };
    case "PageDown":
      return { ...at, row: Math.max(1, at.row) + Math.max(1, shape.page - 1) };
    case "PageUp":
      return { ...at, row: Math.max(1, at.row - Math.max(1, shape.page - 1)) };
    case "Home":
      return ctrl ? { row: Math.min(1, shape.rows), column: 0 } : { ...at, column: 0 };
    case "End":
      return { row: ctrl ? shape.rows : at.row, column: shape.columns - 1 };
    default:
      return null;
  }
}
