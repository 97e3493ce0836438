import { Tooltip } from "@mantine/core";
import { queryOptions, useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { answerOf, api } from "../../api/client";
import { serverNow } from "../../lib/clock";
import { asApiError } from "../../lib/errors";
import { plural } from "../../lib/format";
import styles from "./change-marks.module.css";
import { groupsOf, type Mark, type MarkGroup, marksOf, markText } from "./mark-groups";

const AGAIN_MS = 30_000;
const LINES_MAX = 8;

/** Without a name the cluster itself. */
type Place = { topic: string } | { tenant: string; namespace: string } | Record<string, never>;

/** The changes of exactly this place in the last `minutes`. */
function marksQuery(cluster: string, place: Place, minutes: number) {
  return queryOptions({
    queryKey: ["marks", cluster, place, minutes],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/marks", {
          params: {
            path: { cluster },
            query: { ...place, from: Math.floor(serverNow()) - minutes * 60_000 },
          },
          signal,
        }),
      ),
    staleTime: AGAIN_MS / 2,
    refetchInterval: AGAIN_MS,
    retry: false,
  });
}

/** Tenant and namespace of a topic's full name. */
function namespaceOf(topic: string): { tenant: string; namespace: string } {
  const [tenant = "", ...rest] = topic.replace(/^[\w-]+:\/\//, "").split("/");
  return { tenant, namespace: rest.slice(0, -1).join("/") };
}

/**
 * Marks of the changes of a topic and of its namespace, or without a topic of the cluster itself, over a chart from one
 * time to another.
 */
export function ChangeMarks({
  cluster,
  topic,
  minutes,
  title,
  from,
  to,
}: {
  cluster: string;
  topic: string | null;
  minutes: number;
  /** The chart's. */
  title: string;
  /** Seconds since the epoch. */
  from: number;
  to: number;
}) {
  const place = topic === null ? null : namespaceOf(topic);
  const places: Place[] = topic === null || place === null ? [{}] : [{ topic }, place];
  const answers = useQueries({ queries: places.map((one) => marksQuery(cluster, one, minutes)) });
  const marks = answers.flatMap(({ data }, index) => marksOf(data?.rows ?? [], index > 0));
  const gap = gapOf(answers);
  const groups = groupsOf(marks, from, to);
  return (
    <>
      {gap && <p className={styles.gap}>{gap}</p>}
      {groups.length > 0 && (
        <ul className={styles.marks} aria-label={`Changes: ${title}`}>
          {groups.map((group) => (
            <li key={group.start} style={{ left: `${group.left * 100}%`, width: `${group.width * 100}%` }}>
              <Group
                of={group}
                topic={topic ?? undefined}
                namespace={place ? `${place.tenant}/${place.namespace}` : undefined}
              />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

interface Answer {
  data: { complete: boolean } | undefined;
  error: unknown;
}

/** The reason why changes may be missing; null when all are marked that the user may see. */
function gapOf(answers: readonly Answer[]): string | null {
  const isUnknown = ({ data, error }: Answer) => !data && error !== null && asApiError(error).status !== 403;
  if (answers.some(isUnknown)) return "Changes are not known";
  return answers.some(({ data }) => data && !data.complete) ? "Only the newest changes are marked" : null;
}

function Group({
  of,
  topic,
  namespace,
}: {
  of: MarkGroup;
  topic: string | undefined;
  namespace: string | undefined;
}) {
  const { marks } = of;
  const lines = marks.slice(0, LINES_MAX).map(markText);
  const rest = marks.length - lines.length;
  if (rest > 0) lines.push(`and ${plural(rest, "other change")}`);
  const name = marks.length === 1 ? `Change: ${lines[0]}` : `${marks.length} changes: ${lines.join("; ")}`;
  const ticks = marks.map(({ at, share, operation }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: two changes may have one time and operation
    <span key={`${at} ${operation} ${index}`} className={styles.tick} style={{ left: `${share * 100}%` }} />
  ));
  const [first, last] = [marks[0] as Mark, marks.at(-1) as Mark];
  const common = { className: styles.mark, "aria-label": name };
  return (
    <Tooltip
      label={lines.join("\n")}
      className={styles.lines ?? ""}
      multiline
      maw={320}
      events={{ hover: true, focus: true, touch: true }}
    >
      {first.id === "" ? (
        <button type="button" {...common}>
          {ticks}
        </button>
      ) : marks.length === 1 ? (
        <Link to="/audit/$id" params={{ id: first.id }} {...common}>
          {ticks}
        </Link>
      ) : (
        <Link
          to="/audit"
          search={{
            where: marks.some(({ isOfNamespace }) => isOfNamespace) ? namespace : topic,
            from: String(first.at),
            to: String(last.at),
          }}
          {...common}
        >
          {ticks}
        </Link>
      )}
    </Tooltip>
  );
}
