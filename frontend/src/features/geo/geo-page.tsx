import { useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useLive, usePolling } from "../../api/live";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { plural } from "../../lib/format";
import { Freshness } from "../../shared/freshness";
import { Page, PageHead, Panel } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { GeoMap } from "./geo-map";
import { endsQuery } from "./geo-queries";
import { clustersOf, linksOf, type Reported } from "./joined-links";
import { LinkTable } from "./link-table";

const route = getRouteApi("/c/$cluster/geo");

/** All clusters that are known from this one, with the links between them. */
export function GeoPage() {
  useTitle("Geo");
  const { cluster } = route.useParams();
  const { reported, own } = useReported(cluster);
  const now = useServerNow();
  const links = linksOf(reported, now);
  const clusters = clustersOf(reported);
  const notServed = new Set([...reported].filter(([, { why }]) => why !== undefined).map(([name]) => name));
  const broken = links.filter(({ tone }) => tone === "bad").length;
  const amber = links.filter(({ tone }) => tone === "warn").length;
  return (
    <Page>
      {[...reported.keys()].map((name) => (
        <Feed key={name} cluster={name} />
      ))}
      <PageHead title="Geo" freshness={own.data && <Freshness at={own.data.at} />} />
      {failureOf(own) && (
        <ErrorNotice error={own.error} title="The links could not be read" onRetry={() => own.refetch()} />
      )}
      {own.data === undefined ? (
        own.isPending && <Loading label="Loading the links" rows={8} />
      ) : (
        <>
          <Panel
            title="Clusters"
            note={
              <span role="status">
                {`${plural(clusters.length, "cluster")}, ${plural(links.length, "link")}`}
                {broken > 0 && `, ${broken} stopped`}
                {amber > 0 && `, ${amber} to look at`}
              </span>
            }
            flush
          >
            {own.data.records === null && <p>The definitions of other clusters could not be read yet.</p>}
            <GeoMap clusters={clusters} links={links} notServed={notServed} now={now} />
          </Panel>
          <Panel title="Links" note={plural(links.length, "direction")} flush>
            <LinkTable links={links} now={now} />
          </Panel>
        </>
      )}
    </Page>
  );
}

/** The ends of this cluster, and those of each cluster that is named in the answers so far. */
function useReported(cluster: string) {
  const [names, setNames] = useState([cluster]);
  const polling = usePolling();
  const results = useQueries({
    queries: names.map((name) => ({ ...endsQuery(name), refetchInterval: polling })),
  });
  const reported = useMemo(() => {
    const found = new Map<string, Reported>();
    names.forEach((name, index) => {
      const result = results[index];
      const failure = result?.data === undefined && result?.error ? result.error.message : undefined;
      found.set(name, { ends: result?.data, why: failure });
    });
    return found;
  }, [names, results]);
  const all = clustersOf(reported);
  if (all.some((name) => !names.includes(name))) setNames(all);
  // biome-ignore lint/style/noNonNullAssertion: the names hold this cluster always
  return { reported, own: results[names.indexOf(cluster)]! };
}

function Feed({ cluster }: { cluster: string }) {
  useLive("geo", { cluster }, endsQuery(cluster).queryKey);
  return null;
}
