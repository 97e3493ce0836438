/**
 * A quiet bar behind or below a number: its share of a whole. The number itself is always written beside. `mark`: a limit
 * on the same whole.
 */
export function Meter({
  share,
  tone = "bar",
  mark,
}: {
  share: number;
  tone?: "bar" | "warn" | "bad";
  mark?: number | undefined;
}) {
  const width = percent(share);
  return (
    <span aria-hidden="true" style={{ position: "relative", display: "block", minWidth: 48 }}>
      <span
        style={{
          display: "block",
          height: 6,
          borderRadius: 3,
          background: "var(--surface-2)",
          overflow: "hidden",
        }}
      >
        <span
          style={{ display: "block", height: "100%", width, borderRadius: 3, background: `var(--${tone})` }}
        />
      </span>
      {mark !== undefined && (
        <span
          data-mark
          style={{
            position: "absolute",
            left: percent(mark),
            top: -3,
            width: 2,
            height: 12,
            marginLeft: -1,
            background: "var(--text)",
          }}
        />
      )}
    </span>
  );
}

function percent(share: number): string {
  return `${Math.max(0, Math.min(1, share)) * 100}%`;
}
