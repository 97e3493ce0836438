import type { CSSProperties } from "react";

// Styles of this feature alone. They come with its code: the style sheet is part of every first load.
const columns = (width: number) => `repeat(auto-fill, minmax(min(${width}px, 100%), 1fr))`;

export const looks = {
  dim: { color: "var(--dim)", fontSize: 13 },
  row: { display: "flex", flexWrap: "wrap", alignItems: "center", gap: "6px 8px" },
  form: { display: "grid", gap: 14, minWidth: 0 },
  fields: { display: "grid", gridTemplateColumns: columns(200), gap: "10px 12px" },
  list: { margin: 0, paddingLeft: 20, overflowWrap: "anywhere" },
  text: { overflowWrap: "anywhere", whiteSpace: "normal" },
  items: { listStyle: "none", margin: 0, padding: 0 },
  item: {
    display: "grid",
    gap: 6,
    padding: "12px 16px",
    borderTop: "1px solid var(--line)",
    overflowWrap: "anywhere",
  },
  foot: {
    display: "flex",
    flexWrap: "wrap",
    alignItems: "center",
    justifyContent: "space-between",
    gap: 8,
    padding: "10px 16px",
    borderTop: "1px solid var(--line)",
  },
  bar: { height: 6, borderRadius: 3, background: "var(--surface-2)", overflow: "hidden" },
  preview: {
    display: "grid",
    gap: 8,
    padding: "10px 14px",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    background: "var(--surface-2)",
    overflowWrap: "anywhere",
  },
} satisfies Record<string, CSSProperties>;
