import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useRef, useState } from "react";
import { known, rate } from "../../lib/format";
import styles from "./geo.module.css";
import type { Link } from "./joined-links";
import { linkWords } from "./link-words";
import { curveOf, LABELLED_MAX, NODE_HEIGHT, NODE_WIDTH, type Spot, spotsOf, viewBoxOf } from "./map-shape";
import { trendPath } from "./trend-line";

const COLOURS = {
  ok: "var(--ok)",
  warn: "var(--warn)",
  bad: "var(--bad)",
  neutral: "var(--dim)",
  accent: "var(--accent)",
};
const NEXT = new Set(["ArrowRight", "ArrowDown"]);
const BEFORE = new Set(["ArrowLeft", "ArrowUp"]);

/**
 * Clusters as nodes, each direction as an arrow in the colour of its state. Arrow keys walk from link to link, Enter
 * opens one. The table below has the same figures.
 */
export function GeoMap({
  clusters,
  links,
  notServed,
  now,
}: {
  clusters: readonly string[];
  links: readonly Link[];
  notServed: ReadonlySet<string>;
  now: number;
}) {
  const navigate = useNavigate();
  const spots = spotsOf(clusters);
  const [current, setCurrent] = useState(0);
  const arrows = useRef<(HTMLElement | SVGElement | null)[]>([]);
  const shown = Math.min(current, links.length - 1);
  const walk = (event: KeyboardEvent) => {
    const step = NEXT.has(event.key) ? 1 : BEFORE.has(event.key) ? -1 : 0;
    const target =
      event.key === "Home" ? 0 : event.key === "End" ? links.length - 1 : step ? shown + step : null;
    if (target === null) return;
    event.preventDefault();
    arrows.current[(target + links.length) % links.length]?.focus();
  };
  return (
    <svg
      className={styles.map}
      viewBox={viewBoxOf(spots)}
      role="group"
      aria-label="Map of clusters. Arrow keys walk from link to link, Enter opens one."
      onKeyDown={walk}
    >
      <defs>
        {Object.entries(COLOURS).map(([tone, colour]) => (
          <marker
            key={tone}
            id={`head-${tone}`}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="5"
            markerHeight="5"
            orient="auto"
          >
            <path d="M0 0L8 4L0 8z" fill={colour} />
          </marker>
        ))}
      </defs>
      {links.map((link, index) => {
        const { path } = curveOf(link, spots);
        const { cluster, remote } = pageOf(link);
        const href = `/c/${encodeURIComponent(cluster)}/geo/${encodeURIComponent(remote)}`;
        return (
          <a
            key={`${link.from} ${link.to}`}
            ref={(element) => {
              arrows.current[index] = element;
            }}
            href={href}
            tabIndex={index === shown ? 0 : -1}
            aria-label={linkWords(link, now)}
            data-tone={link.tone}
            onFocus={() => setCurrent(index)}
            onClick={(event) => {
              if (event.metaKey || event.ctrlKey || event.shiftKey) return;
              event.preventDefault();
              void navigate({ to: "/c/$cluster/geo/$remote", params: { cluster, remote } });
            }}
          >
            {/* Wide and invisible, so that the arrow is easy to hit. */}
            <path d={path} fill="none" stroke="transparent" strokeWidth="28" />
            <path
              d={path}
              fill="none"
              stroke={COLOURS[link.tone]}
              strokeWidth="2.5"
              strokeDasharray={link.tone === "ok" ? undefined : "7 5"}
              markerEnd={`url(#head-${link.tone})`}
            />
          </a>
        );
      })}
      {/* Its words are those of the arrows' names. */}
      {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a group of a drawing takes no focus */}
      <g aria-hidden="true" pointerEvents="none">
        {clusters.length <= LABELLED_MAX &&
          links.map((link) => (
            <Figures key={`${link.from} ${link.to}`} link={link} spots={spots} colour={COLOURS[link.tone]} />
          ))}
      </g>
      {clusters.map((name) => {
        const { x, y } = spots.get(name) ?? { x: 0, y: 0 };
        return (
          <g key={name} transform={`translate(${x - NODE_WIDTH / 2} ${y - NODE_HEIGHT / 2})`}>
            <rect
              width={NODE_WIDTH}
              height={NODE_HEIGHT}
              rx="8"
              fill="var(--surface-2)"
              stroke="var(--line-strong)"
              strokeDasharray={notServed.has(name) ? "4 3" : undefined}
            />
            <text
              x={NODE_WIDTH / 2}
              y={notServed.has(name) ? 20 : 28}
              textAnchor="middle"
              fill="var(--text)"
              fontWeight="600"
              fontSize="15"
            >
              {short(name)}
            </text>
            {notServed.has(name) && (
              <text x={NODE_WIDTH / 2} y="36" textAnchor="middle" fill="var(--dim)" fontSize="12">
                its end is not known
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** The page about a link is that of its sender, where that is known. */
function pageOf({ from, to, sender }: Link) {
  return sender === null ? { cluster: to, remote: from } : { cluster: from, remote: to };
}

function Figures({ link, spots, colour }: { link: Link; spots: ReadonlyMap<string, Spot>; colour: string }) {
  const { x, y } = curveOf(link, spots).label;
  const { sender, receiver } = link;
  const sent = sender?.msg_rate ?? receiver?.received_msg_rate ?? null;
  const values = sender?.trend?.sent ?? receiver?.trend?.received ?? [];
  return (
    <g className={styles.label} transform={`translate(${(x - 76).toFixed(1)} ${(y - 24).toFixed(1)})`}>
      <rect width="152" height="48" rx="6" fill="var(--surface)" stroke="var(--line)" />
      <text x="8" y="17" fill="var(--text)" fontSize="12.5">
        {known(sent, rate)}/s
      </text>
      <text x="144" y="17" textAnchor="end" fill={colour} fontSize="12" fontWeight="600">
        {link.state}
      </text>
      <path
        d={trendPath(values, 136, 20)}
        transform="translate(8 23)"
        fill="none"
        stroke="var(--series-1)"
        strokeWidth="1.4"
      />
    </g>
  );
}

const NAME_MAX = 15;

function short(name: string): string {
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name;
}
