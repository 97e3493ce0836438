/** A quiet bar behind or below a number: its share of a whole. The number itself is always written beside. */
export function Meter({ share, tone = "bar" }: { share: number; tone?: "bar" | "warn" | "bad" }) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return (
    <span
      aria-hidden="true"
      style={{
        display: "block",
        height: 6,
        borderRadius: 3,
        background: "var(--surface-2)",
        overflow: "hidden",
        minWidth: 48,
      }}
    >
      <span
        style={{ display: "block", height: "100%", width, borderRadius: 3, background: `var(--${tone})` }}
      />
    </span>
  );
}
