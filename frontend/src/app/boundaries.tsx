import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ErrorComponentProps, Link, Outlet, useParams } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { environmentQuery } from "../api/environment";
import { useHealth } from "../api/health";
import { addressIn } from "../api/page-cluster";
import { PageNotFetched } from "../shared/lazy-page";
import { Page, PageHead, Panel } from "../ui/panel";
import { Empty, Loading, Notice } from "../ui/states";
import { useTitle } from "../ui/use-title";

export function RoutePending() {
  return (
    <Page>
      <Loading label="Loading the page" rows={6} />
    </Page>
  );
}

export function NotFound() {
  useTitle("Page not found");
  return (
    <Page>
      <PageHead title="Page not found" />
      <Panel title="Where to go from here">
        <p>
          The link may be incomplete, or from a newer console. Go to the <Link to="/">overview</Link>, or
          press Ctrl K and type part of a topic's name.
        </p>
      </Panel>
    </Page>
  );
}

/** A fault of the console itself, e.g. a page whose code could not be loaded after an upgrade. */
export function RouteError({ error }: ErrorComponentProps) {
  useTitle("Error");
  if (error instanceof PageNotFetched) return <NotFetched />;
  return (
    <Page>
      <PageHead title="This page failed" />
      <Notice tone="error">
        <p>{error instanceof Error ? error.message : "Unknown error of the console."}</p>
        <p>If the gateway was upgraded meanwhile, reload the page.</p>
      </Notice>
      <div>
        <Button onClick={() => location.reload()}>Reload</Button>
      </div>
    </Page>
  );
}

/** The gateway does not answer and this page was never opened, so its code is not here yet. */
function NotFetched() {
  const { hops } = useHealth();
  const isAway = hops.some(({ hop }) => hop === "gateway");
  const wasAway = useRef(isAway);
  useEffect(() => {
    if (wasAway.current && !isAway) location.reload();
    wasAway.current ||= isAway;
  }, [isAway]);
  return (
    <Page>
      <PageHead title="This page is not loaded yet" />
      <Loading label="Fetching the page" rows={6} />
    </Page>
  );
}

/** Pages of a cluster that this gateway does not serve would only show its refusals: one page says so instead. */
export function ClusterGate() {
  const { cluster } = useParams({ from: "/c/$cluster" });
  const environment = useQuery(environmentQuery).data;
  if (!environment || environment.cluster === cluster) return <Outlet />;
  return (
    <Page>
      <PageHead title={`Cluster ${cluster} not found`} />
      <Panel title={environment.served.length > 1 ? "Clusters of this gateway" : "Cluster of this gateway"}>
        <Empty title={`This gateway serves ${environment.served.join(", ")}`}>
          {environment.served.map((name) => (
            <p key={name}>
              <a href={addressIn(name, location)}>This page in {name}</a>
            </p>
          ))}
        </Empty>
      </Panel>
    </Page>
  );
}
