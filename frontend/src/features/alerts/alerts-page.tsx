import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { dateTime } from "../../lib/format";
import { useReadsEverything, useWhyNot } from "../../shared/access/may";
import type { AlertPlace } from "../../shared/commands/alert-commands";
import { useCluster } from "../../shared/topic-link";
import { Page, PageHead } from "../../ui/panel";
import { useTitle } from "../../ui/use-title";
import { Channels } from "./channels";
import { Firings } from "./firings";
import { looks } from "./looks";
import { rulesQuery } from "./queries";
import { Rules } from "./rules";
import { TABS, type Tab } from "./search";
import { Silences } from "./silences";

const LABELS: Record<Tab, string> = {
  firing: "Firing now",
  history: "History",
  rules: "Rules",
  channels: "Channels",
  silences: "Silences",
};

/** Alerts: what fires, what did, the rules, whom they notify, and what is silent. */
export function AlertsPage() {
  useTitle("Alerts");
  const cluster = useCluster();
  const {
    tab = "firing",
    tenant = "",
    cause = "",
    scope = "",
    subscription = "",
  } = useSearch({ from: "/alerts" });
  const seesAll = useReadsEverything();
  const navigate = useNavigate({ from: "/alerts" });
  const place: AlertPlace = { cluster, tenant };
  const isChosen = seesAll || tenant !== "";
  const whyNot = useWhyNot(cluster, tenant ? { tenant } : {});
  const begun = cause || scope ? { cause, scope, subscription } : null;
  return (
    <Page>
      <PageHead title="Alerts" freshness={isChosen && <Evaluated place={place} />} />
      <nav aria-label="Alerts" style={looks.tabs}>
        {TABS.map((name) => (
          <Button
            key={name}
            size="compact-md"
            variant={name === tab ? "filled" : "default"}
            aria-current={name === tab ? "page" : undefined}
            onClick={() => navigate({ search: { tab: name, tenant: tenant || undefined } })}
          >
            {LABELS[name]}
          </Button>
        ))}
      </nav>
      {!seesAll && (
        <TenantChoice
          tenant={tenant}
          onChoose={(chosen) => navigate({ search: { tab, tenant: chosen || undefined } })}
        />
      )}
      {isChosen && tab === "firing" && <Firings place={place} state="open" whyNot={whyNot} />}
      {isChosen && tab === "history" && <Firings place={place} state="ended" whyNot={whyNot} />}
      {isChosen && tab === "rules" && <Rules place={place} whyNot={whyNot} begun={begun} />}
      {isChosen && tab === "channels" && <Channels place={place} whyNot={whyNot} />}
      {isChosen && tab === "silences" && <Silences place={place} whyNot={whyNot} begun={begun} />}
    </Page>
  );
}

function Evaluated({ place }: { place: AlertPlace }) {
  const at = useQuery(rulesQuery(place)).data?.evaluated_at;
  if (at === undefined) return null;
  return (
    <span style={looks.dim}>{at === null ? "No rule was evaluated yet" : `Evaluated ${dateTime(at)}`}</span>
  );
}

/** An administrator of tenants has the alerts of one tenant at a time. */
function TenantChoice({ tenant, onChoose }: { tenant: string; onChoose: (tenant: string) => void }) {
  const [text, setText] = useState(tenant);
  return (
    <form
      style={looks.row}
      onSubmit={(event) => {
        event.preventDefault();
        onChoose(text.trim());
      }}
    >
      <TextInput
        aria-label="Tenant"
        placeholder="Tenant that you administer"
        value={text}
        autoComplete="off"
        autoCapitalize="none"
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" variant="default">
        Show its alerts
      </Button>
    </form>
  );
}
