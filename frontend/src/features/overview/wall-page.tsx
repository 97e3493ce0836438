import { Box } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useHealth } from "../../api/health";
import { useFeedFailure, useLive, usePolling } from "../../api/live";
import type { Overview } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { plural, rate, short, time } from "../../lib/format";
import { withMoments } from "../../lib/moments";
import { BacklogFigure, OldestAge } from "../../shared/backlog/backlog-figures";
import { backlogWords } from "../../shared/backlog/backlog-words";
import { Figure, type Source, shareKnown } from "../../shared/figure";
import { ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { overviewQuery } from "./queries";

const TONES = { error: "var(--bad)", warning: "var(--warn)", info: "var(--dim)" } as const;
const ROWS = 4;
// On a single line, so that the page fits on the screen.
const DETAIL = {
  display: "block",
  overflow: "hidden",
  textOverflow: "ellipsis",
  whiteSpace: "nowrap",
  fontSize: "0.7em",
  color: "var(--dim)",
} as const;

/** A cluster's problems and main figures for a screen on the wall. It needs no input and follows the live feed. */
export function WallPage({ cluster }: { cluster: string }) {
  useTitle(`Wallboard · ${cluster}`);
  const query = overviewQuery(cluster);
  useLive("overview", { cluster }, query.queryKey);
  const overview = useQuery({ ...query, refetchInterval: usePolling() });
  return (
    <Box
      pos="fixed"
      inset={0}
      p="2vw"
      bg="var(--bg)"
      style={{ zIndex: 300, overflow: "auto", fontSize: "clamp(16px, 1.6vw, 40px)", lineHeight: 1.3 }}
    >
      <Head cluster={cluster} at={overview.data?.at} />
      {failureOf(overview) && <ErrorNotice error={overview.error} title="The overview could not be read" />}
      {overview.data ? <Board overview={overview.data} /> : <Loading label="Loading the overview" rows={4} />}
    </Box>
  );
}

/** The cluster, the time of the figures, and whether they are old. */
function Head({ cluster, at }: { cluster: string; at: number | undefined }) {
  const failure = useFeedFailure();
  const isOld = useHealth().stale || failure !== null;
  return (
    <Box style={{ display: "flex", flexWrap: "wrap", gap: "0 1em", alignItems: "baseline" }}>
      <h1 style={{ fontSize: "1.4em", margin: 0 }}>{cluster}</h1>
      <span style={{ color: isOld ? "var(--bad)" : "var(--dim)", marginInlineEnd: "auto" }}>
        {at === undefined ? "not read yet" : `${isOld ? "Stale · " : ""}as of ${time(at)}`}
      </span>
      <Link to="/" search={(before) => ({ ...before, wall: undefined })} style={{ fontSize: "14px" }}>
        Leave the wallboard
      </Link>
    </Box>
  );
}

function Board({ overview }: { overview: Overview }) {
  const { totals, attention } = overview;
  const part = shareKnown(totals);
  const source: Source = { known: part ? "last" : "live", at: overview.at };
  const figure = (value: number) => <Figure of={source} value={value} text={rate} why={part || undefined} />;
  return (
    <>
      <dl
        style={{
          display: "grid",
          gridTemplateColumns: "repeat(auto-fit, minmax(7em, 1fr))",
          gap: "0.6em 1em",
          margin: "1em 0",
        }}
      >
        <Big label="In, messages/s">{figure(totals.msg_rate_in)}</Big>
        <Big label="Out, messages/s">{figure(totals.msg_rate_out)}</Big>
        <Big label="Backlog">{backlogWords(totals, short)?.amount ?? "not known"}</Big>
      </dl>
      <h2 style={{ fontSize: "1.1em" }}>Needs attention</h2>
      {attention.items.length === 0 ? (
        <p style={{ color: attention.known ? "var(--ok)" : "var(--warn)" }}>
          {attention.known ? "No problem found" : "Not every part answers: there may be problems"}
        </p>
      ) : (
        <ul style={{ listStyle: "none", padding: 0, margin: 0 }}>
          {attention.items.map((item) => (
            <li key={item.key} style={{ padding: "0.25em 0", borderTop: "1px solid var(--line)" }}>
              <b style={{ color: TONES[item.severity] }} lang="en">
                {withMoments(item.title, overview.at)}
              </b>{" "}
              <span style={DETAIL} lang="en">
                {withMoments(item.detail, overview.at)}
              </span>
            </li>
          ))}
        </ul>
      )}
      {attention.more > 0 && <p>{plural(attention.more, "more problem")}</p>}
      <h2 style={{ fontSize: "1.1em" }}>Largest backlogs, with the age of the oldest message</h2>
      <ul style={{ listStyle: "none", padding: 0, margin: 0 }}>
        {overview.top_backlogs.slice(0, ROWS).map((row) => (
          <li key={row.name} style={{ display: "flex", flexWrap: "wrap", gap: "0 1em" }}>
            <span style={{ marginInlineEnd: "auto", overflowWrap: "anywhere" }}>
              {row.tenant}/{row.namespace}/{row.topic}
            </span>
            <b>
              <BacklogFigure of={row} />
            </b>
            <b>
              <OldestAge at={row.oldest_at} />
            </b>
          </li>
        ))}
      </ul>
    </>
  );
}

function Big({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt style={{ fontSize: "0.7em", color: "var(--dim)" }}>{label}</dt>
      <dd style={{ fontSize: "2.2em", fontWeight: 700, margin: 0 }}>{children}</dd>
    </div>
  );
}
