import { Button, NativeSelect, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime, plural } from "../../lib/format";
import { withMoments } from "../../lib/moments";
import type { WhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Dialog } from "../../ui/dialog";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { SortBar } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Panel } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { looks } from "./looks";
import { acknowledge, FIRING_SORTS, type Firing, firingsQuery, PER_PAGE, SEVERITIES } from "./queries";
import { SilenceDialog } from "./silence-dialog";

const TONES = { error: "bad", warning: "warn", info: "neutral" } as const;

/** The firings that last, or those that have ended. */
export function Firings({
  place,
  state,
  whyNot,
}: {
  place: AlertPlace;
  state: "open" | "ended";
  whyNot: WhyNot;
}) {
  const { q, ...search } = useSearch({ from: "/alerts" });
  const { sort, page, show, by, turning } = useOrder(FIRING_SORTS, state === "open" ? "-since" : "-ended_at");
  const severity = SEVERITIES.find((known) => known === search.severity);
  const stored = useQuery({
    ...firingsQuery(place, { state, q, severity, sort, page }),
    placeholderData: keepPreviousData,
  });
  const [chosen, setChosen] = useState<{ firing: Firing; what: "silence" | "acknowledge" } | null>(null);
  const failure = failureOf(stored);
  const { rows, total } = stored.data ?? { rows: null, total: 0 };
  const isFiltered = Boolean(q || severity);
  return (
    <Panel
      title={state === "open" ? "Firing now" : "History of alerts"}
      note={rows && count(total)}
      flush
      actions={
        <>
          <FilterInput
            label="Part of title or rule"
            value={q ?? ""}
            write={(value, replace) => show({ q: value || undefined }, replace)}
          />
          <NativeSelect
            aria-label="Severity"
            size="xs"
            value={severity ?? ""}
            data={[{ value: "", label: "Any severity" }, ...SEVERITIES]}
            onChange={(event) => show({ severity: event.currentTarget.value || undefined })}
          />
          <Pages {...turning} total={stored.data?.total} per={PER_PAGE} />
        </>
      }
    >
      {failure && (
        <div style={looks.pad}>
          <ErrorNotice error={failure} title="The alerts could not be read" onRetry={stored.refetch} />
        </div>
      )}
      {!rows && !failure && <Loading label="Loading the alerts" rows={4} />}
      {rows?.length === 0 && isFiltered && <Empty title="No alert matches" />}
      {rows?.length === 0 && !isFiltered && (
        <Empty title={state === "open" ? "No rule fires" : "No alert has ended"}>
          {state === "open" && <p>Rules that are not evaluated say so in the tab Rules.</p>}
        </Empty>
      )}
      {rows && rows.length > 0 && (
        <SortBar
          columns={[
            { header: "Begin", ...by("began_at", true) },
            state === "open"
              ? { header: "First seen", ...by("since", true) }
              : { header: "End", ...by("ended_at", true) },
            { header: "Rule", ...by("rule") },
          ]}
        />
      )}
      {rows && rows.length > 0 && (
        <ul style={looks.items}>
          {rows.map((firing) => (
            <Item
              key={firing.id}
              firing={firing}
              whyNot={whyNot}
              onChoose={(what) => setChosen({ firing, what })}
            />
          ))}
        </ul>
      )}
      {chosen?.what === "silence" && (
        <SilenceDialog place={place} of={chosen.firing} onClose={() => setChosen(null)} />
      )}
      {chosen?.what === "acknowledge" && (
        <AcknowledgeDialog place={place} firing={chosen.firing} onClose={() => setChosen(null)} />
      )}
    </Panel>
  );
}

function Item({
  firing,
  whyNot,
  onChoose,
}: {
  firing: Firing;
  whyNot: WhyNot;
  onChoose: (what: "silence" | "acknowledge") => void;
}) {
  const title = withMoments(firing.title, Date.now());
  const { state, began_at, ended_at, acked_at } = firing;
  return (
    <li style={looks.item}>
      <div style={looks.row}>
        <Badge tone={TONES[firing.severity]}>{firing.severity}</Badge>
        {state === "pending" && <Badge>pending</Badge>}
        {firing.silenced && <Badge>silenced: {firing.silenced}</Badge>}
        {acked_at !== null && <Badge tone="ok">acknowledged</Badge>}
        {firing.escalated_at !== null && <Badge tone="warn">escalated</Badge>}
        <b>
          {firing.link ? (
            <PathLink path={firing.link} lang="en">
              {title}
            </PathLink>
          ) : (
            <span lang="en">{title}</span>
          )}
        </b>
      </div>
      <span>
        {firing.rule}
        {firing.detail && <span lang="en"> · {withMoments(firing.detail, Date.now())}</span>}
      </span>
      <span style={looks.dim}>
        {began_at === null ? `since ${dateTime(firing.since)}` : `began ${dateTime(began_at)}`}
        {ended_at !== null && ` · ended ${dateTime(ended_at)}`}
        {firing.end_reason && (
          <>
            {" "}
            (<span lang="en">{firing.end_reason}</span>)
          </>
        )}
        {acked_at !== null && ` · acknowledged by ${firing.acked_by} ${dateTime(acked_at)}`}
        {firing.note && `: ${firing.note}`}
      </span>
      {firing.deliveries.map((delivery) => (
        <span key={`${delivery.kind} ${delivery.channel}`} style={delivery.error ? looks.bad : looks.dim}>
          {delivery.channel}: {delivery.kind}{" "}
          {delivery.state === "sent" && delivery.sent_at !== null
            ? `sent ${dateTime(delivery.sent_at)}`
            : delivery.state === "failed"
              ? "given up"
              : `waiting, ${plural(delivery.attempts, "attempt")}`}
          {delivery.error && <span lang="en"> · {delivery.error}</span>}
        </span>
      ))}
      {state !== "ended" && (
        <div style={looks.row}>
          {state === "firing" && acked_at === null && (
            <ActionButton
              size="compact-sm"
              variant="default"
              why={whyNot("acknowledgeAlert")}
              onClick={() => onChoose("acknowledge")}
            >
              Acknowledge…
            </ActionButton>
          )}
          <ActionButton
            size="compact-sm"
            variant="default"
            why={whyNot("silenceAlerts")}
            onClick={() => onChoose("silence")}
          >
            Silence…
          </ActionButton>
        </div>
      )}
    </li>
  );
}

function AcknowledgeDialog({
  place,
  firing,
  onClose,
}: {
  place: AlertPlace;
  firing: Firing;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [note, setNote] = useState("");
  const change = useMutation({
    mutationFn: () => acknowledge(place, firing.id, note),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  return (
    <Dialog onClose={onClose} title="Acknowledge the alert">
      <div style={looks.form}>
        <p>
          <b lang="en">{firing.title}</b>: it is not escalated any more. It ends by itself.
        </p>
        <TextInput
          label="Note"
          value={note}
          maxLength={500}
          data-autofocus
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        {change.error && <ChangeFailure error={change.error} title="It was not acknowledged" />}
        <CommandLines of={ALERT_COMMANDS.acknowledgeAlert(place, firing.id, { note })} />
        <div style={looks.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button loading={change.isPending} onClick={() => change.mutate()}>
            Acknowledge
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
