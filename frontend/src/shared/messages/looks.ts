import type { CSSProperties } from "react";

// Styles of this feature alone. They come with its code: the style sheet is part of every first load.
const mono = { fontFamily: "var(--mono)", fontSize: 12.5 };
const columns = (width: number) => `repeat(auto-fill, minmax(min(${width}px, 100%), 1fr))`;

export const looks = {
  dim: { color: "var(--dim)" },
  form: { display: "grid", gap: 12 },
  fields: { display: "grid", gridTemplateColumns: columns(190), gap: "10px 12px" },
  summary: { marginBottom: 8, cursor: "pointer" },
  foot: {
    display: "flex",
    flexWrap: "wrap",
    alignItems: "center",
    justifyContent: "space-between",
    gap: "8px 16px",
    padding: "10px 16px",
    color: "var(--dim)",
    fontSize: 13,
  },
  choices: { display: "flex", flexWrap: "wrap", gap: 8 },
  file: { display: "block", maxWidth: "100%", minHeight: 32 },
  whole: { overflowWrap: "anywhere" },
  value: { ...mono, overflowWrap: "anywhere" },
  facts: { display: "grid", gridTemplateColumns: columns(220), gap: "10px 32px", overflowWrap: "anywhere" },
  tree: { ...mono, maxHeight: 560, overflow: "auto", lineHeight: 1.6 },
  inner: { paddingLeft: 18 },
  name: { color: "var(--dim)" },
  text: { color: "var(--ok)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" },
  number: { color: "var(--accent)" },
  word: { color: "var(--warn)" },
} satisfies Record<string, CSSProperties>;
