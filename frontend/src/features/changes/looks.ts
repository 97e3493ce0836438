import type { CSSProperties } from "react";

// Styles of this feature alone. They come with its code: the style sheet is part of every first load.
export const looks = {
  dim: { color: "var(--dim)", fontSize: 13 },
  text: { overflowWrap: "anywhere", whiteSpace: "normal", minWidth: 140 },
  row: { display: "flex", flexWrap: "wrap", alignItems: "center", gap: "6px 10px" },
  body: { display: "grid", gap: 12 },
  bad: { color: "var(--bad)" },
  bar: { width: "100%", height: 8 },
} satisfies Record<string, CSSProperties>;
