/** The path of a line of values in a box; an unknown value is a gap, and never drawn as zero. */
export function trendPath(values: readonly (number | null)[], width: number, height: number): string {
  const top = Math.max(...values.map((value) => value ?? 0), 0) || 1;
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let path = "";
  let isDrawing = false;
  values.forEach((value, index) => {
    if (value !== null) {
      const y = height - 1 - (value / top) * (height - 2);
      path += `${isDrawing ? "L" : "M"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    }
    isDrawing = value !== null;
  });
  return path;
}
