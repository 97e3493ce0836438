import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { answerOf, api, given } from "../../api/client";
import { pageCluster } from "../../api/page-cluster";
import { dateTime, plural } from "../../lib/format";
import { Panel } from "../../ui/panel";
import { runStateText } from "./run-words";

const PINNED_MAX = 20;

/** The runs that are pinned to a topic; nothing without any. */
export function PinnedRuns({ topic }: { topic: string }) {
  const { data } = useQuery({
    queryKey: ["runs", { target: topic, pinned: true }],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/runs", {
          params: {
            query: given({
              cluster: pageCluster,
              target: topic,
              pinned: "true" as const,
              offset: 0,
              limit: PINNED_MAX,
            }),
          },
          signal,
        }),
      ),
    staleTime: 30_000,
  });
  if (!data || data.rows.length === 0) return null;
  return (
    <Panel title="Pinned analyses" note={plural(data.total, "run")}>
      <ul>
        {data.rows.map((run) => (
          <li key={run.id}>
            <Link to="/analyses/runs/$id" params={{ id: run.id }}>
              <span lang="en">{run.title.replace(` of ${topic}`, "") || run.analysis}</span>
            </Link>{" "}
            {`${runStateText(run.state)}, ${dateTime(run.created_at)}`}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
