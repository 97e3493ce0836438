const WIDTH = 42;
const HEIGHT = 20;

/** Lines through the known `values`, as an SVG path; a gap where one is unknown. Empty without two points. */
export function trendPath(values: readonly (number | null)[]): string {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return "";
  const top = Math.max(...known, 1);
  const step = WIDTH / (values.length - 1);
  let drawing = false;
  return values
    .map((value, index) => {
      if (value === null) {
        drawing = false;
        return "";
      }
      const command = drawing ? "L" : "M";
      drawing = true;
      return `${command}${(index * step).toFixed(1)} ${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`;
    })
    .join("");
}

/** The trend of a number, as large as a word. The text states the same. */
export function Trend({ values, label }: { values: readonly (number | null)[]; label: string }) {
  return (
    <svg
      height={HEIGHT}
      style={{ width: "100%", maxWidth: WIDTH, verticalAlign: "middle" }}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path
        d={trendPath(values)}
        fill="none"
        stroke="var(--series-1)"
        strokeWidth="1.4"
        strokeLinejoin="round"
        strokeLinecap="round"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
