import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import type { components } from "../../api/schema";
import { failureOf } from "../../lib/errors";
import { count, rate } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { useWhyNot } from "../../shared/access/may";
import { Freshness } from "../../shared/freshness";
import { topicPagePath } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Table } from "../../ui/grid/table";
import { Page, PageHead, Panel } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Since } from "../../ui/since";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { Facts } from "./client-facts";
import { clientQuery } from "./client-queries";
import { clientName } from "./client-words";
import { DisconnectClient } from "./disconnect-client";

type Opened = components["schemas"]["ConnectionClient"];
const route = getRouteApi("/c/$cluster/clients/$broker/$connection");

export function ClientPage() {
  const place = route.useParams();
  const { cluster } = place;
  useTitle("Client");
  const answer = useQuery(clientQuery(place));
  const whyNot = useWhyNot(cluster, {});
  const [closing, setClosing] = useState(false);
  const client = answer.data;
  return (
    <Page>
      <PageHead
        title="Client"
        freshness={client && <Freshness at={client.at} />}
        actions={
          <Link to="/c/$cluster/clients" params={{ cluster }}>
            All clients
          </Link>
        }
      />
      {failureOf(answer) && (
        <ErrorNotice
          error={answer.error}
          title={client ? "The client could not be read again" : "The client could not be read"}
          onRetry={() => answer.refetch()}
        />
      )}
      {client === undefined ? (
        answer.isPending && <Loading label="Loading the client" rows={6} />
      ) : (
        <>
          <Panel
            title={client.address}
            note={clientName(client)}
            actions={
              <ActionButton why={whyNot("disconnectClient")} onClick={() => setClosing(true)}>
                Disconnect …
              </ActionButton>
            }
          >
            <Facts of={client} />
          </Panel>
          <Panel title="Producers and consumers" note={count(client.producers + client.consumers)} flush>
            <Opens of={client.clients} cluster={cluster} />
          </Panel>
          <p>
            <Link to="/c/$cluster/clients" params={{ cluster }} search={{ host: hostOf(client.address) }}>
              Other clients of this host
            </Link>
          </p>
        </>
      )}
      {closing && (
        <DisconnectClient
          place={place}
          onChanged={() => answer.refetch()}
          onClose={() => setClosing(false)}
        />
      )}
    </Page>
  );
}

const hostOf = (address: string) => address.replace(/:\d+$/, "");

function Opens({ of, cluster }: { of: readonly Opened[]; cluster: string }) {
  return (
    <Table<Opened>
      caption="Producers and consumers"
      rows={[...of]}
      maxHeight={560}
      rowKey={(row) => `${row.kind} ${row.topic} ${row.subscription} ${row.name} ${row.since}`}
      empty={<Empty title="Nothing is open">The client has neither a producer nor a consumer.</Empty>}
      columns={[
        { key: "kind", header: "Kind", cell: (row) => row.kind },
        { key: "topic", header: "Topic", cell: (row) => <TopicName of={row} cluster={cluster} /> },
        { key: "name", header: "Name", cell: (row) => row.name },
        { key: "rate", header: "Rate", numeric: true, cell: (row) => `${rate(row.msg_rate)}/s` },
        {
          key: "unacked",
          header: "Unacknowledged",
          numeric: true,
          cell: (row) => (row.kind === "producer" ? "—" : count(row.unacked)),
        },
        { key: "since", header: "Since", numeric: true, cell: (row) => <Since at={row.since} /> },
        {
          key: "metadata",
          header: "Metadata",
          cell: (row) =>
            Object.entries(row.metadata)
              .map(([key, value]) => `${key}=${value}`)
              .join(", ") || "—",
        },
      ]}
    />
  );
}

function TopicName({ of, cluster }: { of: Opened; cluster: string }) {
  const name = parseTopicName(of.topic);
  if (name === null) return of.topic;
  const tab = of.subscription ? "subscriptions" : "overview";
  return (
    <>
      <PathLink path={topicPagePath(cluster, name, tab)} label={of.topic}>
        {name.tenant}/{name.namespace}/{name.topic}
      </PathLink>
      {of.subscription && (
        <small>
          {" "}
          {of.subscription} · {of.type}
        </small>
      )}
    </>
  );
}
