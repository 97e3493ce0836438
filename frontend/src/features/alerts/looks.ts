import type { CSSProperties } from "react";

// Styles of this feature alone. They come with its code: the style sheet is part of every first load.
const columns = (width: number) => `repeat(auto-fill, minmax(min(${width}px, 100%), 1fr))`;

export const looks = {
  dim: { color: "var(--dim)", fontSize: 13 },
  bad: { color: "var(--bad)" },
  form: { display: "grid", gap: 12, minWidth: 0, margin: 0, padding: 0, border: 0 },
  fields: { display: "grid", gridTemplateColumns: columns(200), gap: "10px 12px" },
  row: { display: "flex", flexWrap: "wrap", alignItems: "center", gap: "6px 8px" },
  buttons: { display: "flex", flexWrap: "wrap", justifyContent: "flex-end", gap: 8 },
  tabs: { display: "flex", flexWrap: "wrap", gap: 6 },
  pad: { padding: "12px 16px" },
  text: { overflowWrap: "anywhere", whiteSpace: "normal", minWidth: 140 },
  items: { listStyle: "none", margin: 0, padding: 0 },
  item: {
    display: "grid",
    gap: 4,
    padding: "12px 16px",
    borderTop: "1px solid var(--line)",
    overflowWrap: "anywhere",
  },
  preview: {
    display: "grid",
    gap: 6,
    padding: "10px 14px",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    background: "var(--surface-2)",
    minHeight: 96,
    alignContent: "center",
  },
} satisfies Record<string, CSSProperties>;
