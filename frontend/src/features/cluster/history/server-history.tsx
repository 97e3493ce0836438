import { NativeSelect } from "@mantine/core";
import { useInViewport } from "@mantine/hooks";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { byteRate, bytes, rate, short } from "../../../lib/format";
import { RangePicker, useMinutes } from "../../../shared/history/range";
import { useMarks } from "../../../shared/history/use-marks";
import { usePast, useWithYesterday } from "../../../shared/history/use-past";
import { LazyChart } from "../../../ui/charts/lazy-chart";
import { overTime } from "../../../ui/charts/over-time";
import { columnsOf } from "../../../ui/charts/use-history";
import { Columns, Panel } from "../../../ui/panel";

interface ServerChart {
  title: string;
  /** Columns of the history, with their labels. */
  lines: Record<string, string>;
  text: (value: number) => string;
  binary?: true;
}

const CHARTS: Record<"broker" | "bookie", readonly ServerChart[]> = {
  broker: [
    { title: "Messages per second", lines: { msg_rate_in: "in", msg_rate_out: "out" }, text: rate },
    {
      title: "Bytes per second",
      lines: { bytes_rate_in: "in", bytes_rate_out: "out" },
      text: byteRate,
      binary: true,
    },
    { title: "Topics", lines: { topics: "topics" }, text: short },
  ],
  bookie: [
    {
      title: "Disk space",
      lines: { used_bytes: "used", total_bytes: "in total" },
      text: bytes,
      binary: true,
    },
    { title: "Fullest disk", lines: { usage: "used" }, text: (share) => `${Math.round(share * 100)} %` },
    { title: "Ledgers", lines: { ledgers: "ledgers" }, text: short },
  ],
};
const HEIGHT_PX = 150;
const NO_POINTS: never[] = [];

/** Past numbers of one broker or bookie, with the changes of the cluster. They are read once the panel is in view. */
export function ServerHistory({
  cluster,
  kind,
  ids,
}: {
  cluster: string;
  kind: "broker" | "bookie";
  ids: readonly string[];
}) {
  const { ref, inViewport } = useInViewport<HTMLDivElement>();
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (inViewport) setSeen(true);
  }, [inViewport]);
  const { server }: { server?: string } = useSearch({ strict: false });
  const navigate = useNavigate();
  const chosen = server !== undefined && ids.includes(server) ? server : ids[0];
  if (chosen === undefined) return null;
  const choose = (id: string) =>
    void navigate({
      to: ".",
      search: (before: object) => ({ ...before, server: id === ids[0] ? undefined : id }),
      replace: true,
    } as Parameters<typeof navigate>[0]);
  return (
    <div ref={ref}>
      <Panel
        title={`History of a ${kind}`}
        actions={
          <div style={{ display: "flex", flexWrap: "wrap", gap: 8, justifyContent: "flex-end" }}>
            <NativeSelect
              size="xs"
              aria-label={`The ${kind}`}
              data={[...ids]}
              value={chosen}
              onChange={(event) => choose(event.currentTarget.value)}
            />
            <RangePicker />
          </div>
        }
      >
        <div style={{ minHeight: HEIGHT_PX }}>
          {isSeen && <Charts key={chosen} cluster={cluster} kind={kind} id={chosen} />}
        </div>
      </Panel>
    </div>
  );
}

function Charts({ cluster, kind, id }: { cluster: string; kind: "broker" | "bookie"; id: string }) {
  const subject = useMemo(() => ({ [kind]: id }), [kind, id]);
  const names = useMemo(() => CHARTS[kind].flatMap(({ lines }) => Object.keys(lines)), [kind]);
  const minutes = useMinutes();
  const points = usePast(cluster, subject, minutes, NO_POINTS, names);
  const compared = useWithYesterday(cluster, subject, minutes, points);
  const { xs, ys } = useMemo(() => columnsOf(points, ...names.keys()), [points, names]);
  const common = { ...overTime(xs, HEIGHT_PX), over: useMarks(cluster, null, minutes) };
  const series = useMemo(
    () =>
      CHARTS[kind].map(({ lines }) =>
        compared(
          Object.keys(lines),
          Object.entries(lines).map(([name, label]) => ({ label, values: ys[names.indexOf(name)] ?? [] })),
        ),
      ),
    [kind, names, ys, compared],
  );
  return (
    <Columns even>
      {CHARTS[kind].map(({ title, text, binary = false }, index) => (
        <section key={title}>
          <h3 style={{ margin: 0, fontSize: 13.5 }}>{title}</h3>
          <LazyChart
            {...common}
            title={`${title} of ${id}`}
            series={series[index] ?? []}
            yText={text}
            binary={binary}
          />
        </section>
      ))}
    </Columns>
  );
}
