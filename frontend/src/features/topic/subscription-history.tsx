import { useMemo } from "react";
import type { SubscriptionRow } from "../../api/types";
import { rate, short } from "../../lib/format";
import { RangePicker, useMinutes } from "../../shared/history/range";
import { useMarks } from "../../shared/history/use-marks";
import { usePast, useWithYesterday } from "../../shared/history/use-past";
import { LazyChart } from "../../ui/charts/lazy-chart";
import { overTime } from "../../ui/charts/over-time";
import { columnsOf, useHistory } from "../../ui/charts/use-history";
import { Columns } from "../../ui/panel";

const COLUMNS = ["msg_rate_in", "msg_rate_out", "backlog"];

/** A subscription's past and live numbers. `arrivals`: messages per second into its topic. */
export function SubscriptionHistory({
  cluster,
  topic,
  subscription,
  arrivals,
  at,
}: {
  cluster: string;
  topic: string;
  subscription: SubscriptionRow;
  arrivals: number | null;
  at: number;
}) {
  const { name } = subscription;
  const live = useHistory(`subscription/${cluster}/${topic}/${name}`, at, [
    arrivals,
    subscription.msg_rate_out,
    subscription.backlog,
  ]);
  const subject = useMemo(() => ({ topic, subscription: name }), [topic, name]);
  const minutes = useMinutes();
  const points = usePast(cluster, subject, minutes, live, COLUMNS);
  const { xs, ys } = useMemo(() => columnsOf(points, 0, 1, 2), [points]);
  const compared = useWithYesterday(cluster, subject, minutes, points);
  const rates = useMemo(
    () =>
      compared(COLUMNS.slice(0, 2), [
        { label: "in", values: ys[0] ?? [] },
        { label: "out", values: ys[1] ?? [] },
      ]),
    [compared, ys],
  );
  const backlog = useMemo(
    () => compared(COLUMNS.slice(2), [{ label: "entries in the backlog", values: ys[2] ?? [] }]),
    [compared, ys],
  );
  const common = { ...overTime(xs, 130), over: useMarks(cluster, topic, minutes) };
  return (
    <div style={{ padding: "0 16px 12px" }}>
      <div style={{ display: "flex", justifyContent: "flex-end" }}>
        <RangePicker />
      </div>
      <Columns even>
        <LazyChart {...common} title={`Backlog of ${name} in entries`} series={backlog} yText={short} />
        <LazyChart
          {...common}
          title={`Messages per second of ${name}`}
          now={[arrivals, subscription.msg_rate_out]}
          series={rates}
          yText={rate}
        />
      </Columns>
    </div>
  );
}
