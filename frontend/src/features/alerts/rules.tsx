import { Button } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime, duration, plural } from "../../lib/format";
import type { WhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { SortBar } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { looks } from "./looks";
import { deleteRule, RULE_SORTS, type Rule, rulesQuery } from "./queries";
import { type Begun, RuleDialog } from "./rule-dialog";

/** The rules. `begun`: an item that a new one is about. */
export function Rules({ place, whyNot, begun }: { place: AlertPlace; whyNot: WhyNot; begun: Begun | null }) {
  const { sort, by } = useOrder(RULE_SORTS, "name");
  const stored = useQuery({ ...rulesQuery(place, sort), placeholderData: keepPreviousData });
  const [edited, setEdited] = useState<Rule | "new" | null>(begun ? "new" : null);
  const failure = failureOf(stored);
  const rows = stored.data?.rows;
  const { cluster, tenant } = place;
  const files = `/api/v1/clusters/${encodeURIComponent(cluster)}/alerts`;
  const owner = tenant ? `?tenant=${encodeURIComponent(tenant)}` : "";
  return (
    <Panel
      title="Rules"
      note={rows && count(rows.length)}
      actions={
        <ActionButton size="compact-sm" why={whyNot("createAlertRule")} onClick={() => setEdited("new")}>
          New rule…
        </ActionButton>
      }
      flush
    >
      {failure && <ErrorNotice error={failure} title="The rules could not be read" />}
      {!rows && !failure && <Loading label="Loading the rules" rows={3} />}
      {rows?.length === 0 && (
        <Empty title="No rule">
          <p>A rule is about what needs attention, or about a figure beyond a threshold.</p>
        </Empty>
      )}
      {rows && rows.length > 0 && (
        <SortBar
          columns={[
            { header: "Name", ...by("name") },
            { header: "On or off", ...by("enabled", true) },
            { header: "Created", ...by("created_at", true) },
            { header: "Changed", ...by("changed_at", true) },
          ]}
        />
      )}
      <ul style={looks.items}>
        {rows?.map((rule) => (
          <Row key={rule.id} rule={rule} place={place} whyNot={whyNot} onEdit={() => setEdited(rule)} />
        ))}
      </ul>
      {rows && rows.length > 0 && (
        <div style={{ ...looks.pad, ...looks.row }}>
          <Button
            component="a"
            size="compact-sm"
            variant="default"
            href={`${files}/prometheus-rules${owner}`}
          >
            Rule file for Prometheus
          </Button>
          <Button component="a" size="compact-sm" variant="default" href={`${files}/dashboard${owner}`}>
            Dashboard for Grafana
          </Button>
        </div>
      )}
      {edited && (
        <RuleDialog
          place={place}
          rule={edited === "new" ? null : edited}
          begun={edited === "new" ? begun : null}
          onClose={() => setEdited(null)}
        />
      )}
    </Panel>
  );
}

function Row({
  rule,
  place,
  whyNot,
  onEdit,
}: {
  rule: Rule;
  place: AlertPlace;
  whyNot: WhyNot;
  onEdit: () => void;
}) {
  const client = useQueryClient();
  const removal = useMutation({
    mutationFn: () => deleteRule(place, rule.id),
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  return (
    <li style={looks.item}>
      <div style={looks.row}>
        <b>{rule.name}</b>
        {!rule.enabled && <Badge>off</Badge>}
        {rule.tenant && <Badge>tenant {rule.tenant}</Badge>}
        {rule.firing > 0 && <Badge tone="bad">{plural(rule.firing, "firing")}</Badge>}
        {rule.unknown_since !== null && <Badge tone="warn">not evaluated for all</Badge>}
      </div>
      <span>
        <span lang="en">{rule.words}</span>
        {rule.for_s > 0 && ` for ${duration(rule.for_s)}`} · {rule.severity}
      </span>
      {rule.unknown_since !== null && (
        <span style={looks.dim}>
          since {dateTime(rule.unknown_since)}: <span lang="en">{rule.unknown_why}</span>
        </span>
      )}
      {rule.left_out > 0 && (
        <span style={looks.dim}>
          At least {plural(rule.left_out, "further object")} meet it: they have no firings of their own.
        </span>
      )}
      {rule.channels?.length === 0 && <span style={looks.dim}>No channel: it fires on this page alone.</span>}
      <div style={looks.row}>
        <ActionButton
          size="compact-sm"
          variant="default"
          why={whyNot("changeAlertRule")}
          aria-label={`Change rule ${rule.name}`}
          onClick={onEdit}
        >
          Change…
        </ActionButton>
        <ActionButton
          size="compact-sm"
          variant="default"
          why={whyNot("deleteAlertRule")}
          loading={removal.isPending}
          aria-label={`Delete rule ${rule.name}`}
          onClick={() => removal.mutate()}
        >
          Delete
        </ActionButton>
      </div>
      <CommandLines of={ALERT_COMMANDS.deleteAlertRule(place, rule.id)} note="Deletes the rule." />
      {removal.error && <ChangeFailure error={removal.error} title="The rule was not deleted" />}
    </li>
  );
}
