import type { Link } from "./joined-links";

export interface Spot {
  x: number;
  y: number;
}

export const MAP_WIDTH = 900;
export const MAP_HEIGHT = 460;
export const NODE_WIDTH = 132;
export const NODE_HEIGHT = 46;
/** Above this number of clusters, figures would cover each other: the table has them. */
export const LABELLED_MAX = 4;
const BEND = 54;
const ROOM = BEND + 34;

/** The places of clusters: two beside each other, more on an ellipse, the first at its top. */
export function spotsOf(names: readonly string[]): Map<string, Spot> {
  const across = MAP_WIDTH / 2 - NODE_WIDTH / 2 - 24;
  const down = MAP_HEIGHT / 2 - NODE_HEIGHT / 2 - 14;
  const first = names.length === 2 ? Math.PI : -Math.PI / 2;
  return new Map(
    names.map((name, index) => {
      const angle = first + (2 * Math.PI * index) / names.length;
      const isAlone = names.length === 1;
      return [
        name,
        {
          x: MAP_WIDTH / 2 + (isAlone ? 0 : across * Math.cos(angle)),
          y: MAP_HEIGHT / 2 + (isAlone ? 0 : down * Math.sin(angle)),
        },
      ];
    }),
  );
}

/** The part of the map that nodes and the figures beside them take. */
export function viewBoxOf(spots: ReadonlyMap<string, Spot>): string {
  const places = [...spots.values()].map(({ y }) => y);
  const top = Math.max(Math.min(...places) - ROOM, 0);
  const bottom = Math.min(Math.max(...places) + ROOM, MAP_HEIGHT);
  return `0 ${top.toFixed()} ${MAP_WIDTH} ${(bottom - top).toFixed()}`;
}

/** The curve of a direction, bent to its own side, and the middle of its figures. */
export function curveOf({ from, to }: Pick<Link, "from" | "to">, spots: ReadonlyMap<string, Spot>) {
  const a = spots.get(from) as Spot;
  const b = spots.get(to) as Spot;
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const side = { x: (b.y - a.y) / length, y: -(b.x - a.x) / length };
  const control = { x: (a.x + b.x) / 2 + side.x * BEND, y: (a.y + b.y) / 2 + side.y * BEND };
  const start = edgeOf(a, control);
  const end = edgeOf(b, control);
  const label = { x: (a.x + b.x) / 2 + side.x * BEND, y: (a.y + b.y) / 2 + side.y * BEND };
  return { path: `M${at(start)}Q${at(control)} ${at(end)}`, label };
}

/** The point at which the line from the middle of a node to `towards` leaves the node. */
function edgeOf(node: Spot, towards: Spot): Spot {
  const [dx, dy] = [towards.x - node.x, towards.y - node.y];
  const gap = 6;
  const share = Math.min(
    (NODE_WIDTH / 2 + gap) / Math.max(Math.abs(dx), 1e-6),
    (NODE_HEIGHT / 2 + gap) / Math.max(Math.abs(dy), 1e-6),
  );
  return { x: node.x + dx * share, y: node.y + dy * share };
}

function at({ x, y }: Spot): string {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}
