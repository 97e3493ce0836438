// Two texts, line by line.

export interface Line {
  kind: "same" | "added" | "removed";
  text: string;
}

/** A run of equal lines that is not shown. */
export interface Gap {
  kind: "gap";
  lines: number;
}

const PAIRS_MAX = 4_000_000; // compared pairs; above it the difference is one block
const AROUND = 3;

/** Fewest lines removed and added. */
export function linesOf(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end))
    end += 1;
  const same = (lines: string[]) => lines.map((text): Line => ({ kind: "same", text }));
  return [
    ...same(old.slice(0, start)),
    ...between(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...same(old.slice(old.length - end)),
  ];
}

function between(old: string[], now: string[]): Line[] {
  if (old.length * now.length > PAIRS_MAX)
    return [
      ...old.map((text): Line => ({ kind: "removed", text })),
      ...now.map((text): Line => ({ kind: "added", text })),
    ];
  // common[i * width + j]: length of the longest common subsequence of old[i…] and now[j…]
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1)
    for (let j = now.length - 1; j >= 0; j -= 1)
      common[i * width + j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "same", text: old[i] ?? "" });
      i += 1;
      j += 1;
    } else if (i < old.length && (j === now.length || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: "removed", text: old[i] ?? "" });
      i += 1;
    } else {
      found.push({ kind: "added", text: now[j] ?? "" });
      j += 1;
    }
  }
  return found;
}

/** Long runs of equal lines become gaps; those next to a difference stay. */
export function folded(lines: readonly Line[]): (Line | Gap)[] {
  const near = new Uint8Array(lines.length);
  lines.forEach(({ kind }, index) => {
    if (kind !== "same") near.fill(1, Math.max(index - AROUND, 0), index + AROUND + 1);
  });
  const found: (Line | Gap)[] = [];
  lines.forEach((line, index) => {
    const last = found.at(-1);
    if (near[index]) found.push(line);
    else if (last?.kind === "gap") last.lines += 1;
    else found.push({ kind: "gap", lines: 1 });
  });
  return found;
}
