import type { OverviewHistory } from "../../api/types";
import type { Point } from "../../ui/charts/history";

/** The server's recorded points before the live ones, in the columns asked for; a missing column is not known. */
export function withEarlier(
  live: readonly Point[],
  recorded: OverviewHistory | undefined,
  columns: readonly string[],
): readonly Point[] {
  if (!recorded) return live;
  const at = recorded.columns.indexOf("at");
  if (at < 0) return live;
  const places = columns.map((column) => recorded.columns.indexOf(column));
  const begin = live[0]?.at ?? Number.POSITIVE_INFINITY;
  const earlier: Point[] = [];
  for (const point of recorded.points) {
    const moment = point[at] ?? 0;
    if (moment < begin) earlier.push({ at: moment, values: places.map((place) => point[place] ?? null) });
  }
  return [...earlier, ...live];
}
