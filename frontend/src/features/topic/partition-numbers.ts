/** The numbers of a topic's partitions as ranges: "all 8", "0–3, 7". `found` is in ascending order. */
export function numbers(found: readonly number[], of: number): string {
  if (of > 1 && found.length === of) return `all ${of}`;
  const runs: [number, number][] = [];
  for (const number of found) {
    const last = runs.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
