import { useInViewport } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { dateTime, plural } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { runStateText } from "../../shared/analyses/run-words";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import styles from "./analyses.module.css";
import { deleteSchedule, type Schedule, schedulesQuery } from "./queries";
import { shortTitle } from "./run/run-state";
import { placeOfTarget, TargetName } from "./target";

/** The analyses that start at set times; nothing without any. They are read once their place is in view. */
export function Schedules() {
  const { ref, inViewport } = useInViewport();
  const stored = useQuery({ ...schedulesQuery, enabled: inViewport });
  const rows = stored.data?.rows ?? [];
  return <div ref={ref}>{rows.length > 0 && <ScheduleList rows={rows} />}</div>;
}

function ScheduleList({ rows }: { rows: Schedule[] }) {
  const client = useQueryClient();
  const removal = useMutation({
    mutationFn: deleteSchedule,
    onSettled: () => client.invalidateQueries({ queryKey: schedulesQuery.queryKey }),
  });
  return (
    <Panel title="Schedules" note={plural(rows.length, "schedule")} flush>
      {removal.error && (
        <div className={styles.pad}>
          <ChangeFailure error={removal.error} title="The schedule was not removed" />
        </div>
      )}
      <Table<Schedule>
        caption="Schedules"
        rows={rows}
        rowKey={({ id }) => id}
        columns={[
          { key: "title", header: "Analysis", cell: (row) => <span lang="en">{shortTitle(row)}</span> },
          {
            key: "target",
            header: "Target",
            grow: true,
            wide: true,
            cell: ({ kind, target }) => <TargetName kind={kind} name={target} />,
          },
          {
            key: "times",
            header: "Times",
            cell: ({ cron, every_hours }) =>
              every_hours === null ? <code>{cron}</code> : `every ${plural(every_hours, "hour")}`,
          },
          {
            key: "next",
            header: "Next run",
            cell: ({ next_at }) => (next_at === null ? "—" : dateTime(next_at)),
          },
          {
            key: "last",
            header: "Last run",
            cell: ({ last_run, last_state, error }) =>
              error !== null ? (
                <span lang="en">{error}</span>
              ) : last_run === null ? (
                "none yet"
              ) : (
                <Link to="/analyses/runs/$id" params={{ id: last_run }}>
                  {last_state && runStateText(last_state)}
                </Link>
              ),
          },
          {
            key: "remove",
            header: "Actions",
            headerHidden: true,
            cell: (schedule) => (
              <Remove
                schedule={schedule}
                isPending={removal.isPending && removal.variables === schedule.id}
                onRemove={() => removal.mutate(schedule.id)}
              />
            ),
          },
        ]}
      />
    </Panel>
  );
}

function Remove({
  schedule: { title, kind, target },
  isPending,
  onRemove,
}: {
  schedule: Schedule;
  isPending: boolean;
  onRemove: () => void;
}) {
  const whyNot = useWhyNot(useCluster(), placeOfTarget(kind, target));
  return (
    <ActionButton
      size="compact-xs"
      variant="default"
      why={whyNot("deleteSchedule")}
      loading={isPending}
      aria-label={`Remove the schedule of ${title}`}
      onClick={onRemove}
    >
      Remove
    </ActionButton>
  );
}
