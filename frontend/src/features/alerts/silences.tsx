import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime } from "../../lib/format";
import type { WhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { looks } from "./looks";
import { endSilence, silencesQuery } from "./queries";
import type { Begun } from "./rule-dialog";
import { SilenceDialog } from "./silence-dialog";

/** The silences that apply now. `begun`: an item that a new one is about. */
export function Silences({
  place,
  whyNot,
  begun,
}: {
  place: AlertPlace;
  whyNot: WhyNot;
  begun: Begun | null;
}) {
  const client = useQueryClient();
  const stored = useQuery(silencesQuery(place));
  const [isMaking, setMaking] = useState(begun !== null);
  const end = useMutation({
    mutationFn: (id: number) => endSilence(place, id),
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  const failure = failureOf(stored);
  const rows = stored.data?.rows;
  return (
    <Panel
      title="Silences"
      note={rows && count(rows.length)}
      actions={
        <ActionButton size="compact-sm" why={whyNot("silenceAlerts")} onClick={() => setMaking(true)}>
          New silence…
        </ActionButton>
      }
      flush
    >
      {failure && <ErrorNotice error={failure} title="The silences could not be read" />}
      {!rows && !failure && <Loading label="Loading the silences" rows={3} />}
      {end.error && <ChangeFailure error={end.error} title="The silence was not ended" />}
      {rows?.length === 0 && <Empty title="Nothing is silenced" />}
      <ul style={looks.items}>
        {rows?.map((row) => (
          <li key={row.id} style={looks.item}>
            <span>
              <b>{row.rule || "Every rule"}</b>
              {row.scope && ` · ${row.scope}`}
              {row.subscription && ` · ${row.subscription}`}
            </span>
            <span>{row.reason}</span>
            <span style={looks.dim}>
              until {dateTime(row.until)} · by {row.created_by}
            </span>
            <div style={looks.row}>
              <ActionButton
                size="compact-sm"
                variant="default"
                why={whyNot("endAlertSilence")}
                loading={end.isPending && end.variables === row.id}
                aria-label={`End the silence: ${row.reason}`}
                onClick={() => end.mutate(row.id)}
              >
                End it now
              </ActionButton>
            </div>
            <CommandLines of={ALERT_COMMANDS.endAlertSilence(place, row.id)} />
          </li>
        ))}
      </ul>
      {isMaking && <SilenceDialog place={place} begun={begun} onClose={() => setMaking(false)} />}
    </Panel>
  );
}
