import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { serverNow } from "../../lib/clock";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { Dialog } from "../../ui/dialog";
import { looks } from "./looks";
import { type Firing, rulesQuery, type SilenceBody, silence } from "./queries";
import type { Begun } from "./rule-dialog";

const HOUR_MS = 3_600_000;
const TIMES = [
  { value: "1", label: "1 hour" },
  { value: "4", label: "4 hours" },
  { value: "24", label: "1 day" },
  { value: "168", label: "1 week" },
];

/** Silences a firing's object, or a rule or place. Firings continue without notifications. */
export function SilenceDialog({
  place,
  of,
  begun,
  onClose,
}: {
  place: AlertPlace;
  of?: Firing;
  begun?: Begun | null;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const rules = useQuery(rulesQuery(place)).data?.rows ?? [];
  const [rule, setRule] = useState("");
  const [scope, setScope] = useState(begun?.scope ?? "");
  const [subscription, setSubscription] = useState(begun?.subscription ?? "");
  const [hours, setHours] = useState("1");
  const [reason, setReason] = useState("");
  const [from] = useState(serverNow);
  const body: SilenceBody = {
    rule_id: rule ? Number(rule) : null,
    firing_id: of?.id ?? null,
    scope: scope.trim(),
    subscription: subscription.trim(),
    until: from + Number(hours) * HOUR_MS,
    reason: reason.trim(),
  };
  const change = useMutation({
    mutationFn: () => silence(place, body),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  const isWhole = body.reason !== "" && (of !== undefined || rule !== "" || body.scope !== "");
  return (
    <Dialog onClose={onClose} title="Silence alerts" size="lg">
      <div style={looks.form}>
        {of ? (
          <p>
            <b lang="en">{of.title}</b>, rule {of.rule}
          </p>
        ) : (
          <div style={looks.fields}>
            <NativeSelect
              label="Rule"
              value={rule}
              data={[
                { value: "", label: "Every rule" },
                ...rules.map(({ id, name }) => ({ value: `${id}`, label: name })),
              ]}
              onChange={(event) => setRule(event.currentTarget.value)}
            />
            <TextInput
              label="Tenant, namespace or topic"
              value={scope}
              autoComplete="off"
              onChange={(event) => setScope(event.currentTarget.value)}
            />
            <TextInput
              label="Subscription"
              value={subscription}
              autoComplete="off"
              onChange={(event) => setSubscription(event.currentTarget.value)}
            />
          </div>
        )}
        <div style={looks.fields}>
          <NativeSelect
            label="For"
            value={hours}
            data={TIMES}
            onChange={(event) => setHours(event.currentTarget.value)}
          />
          <TextInput
            label="Reason"
            required
            value={reason}
            maxLength={400}
            data-autofocus
            onChange={(event) => setReason(event.currentTarget.value)}
          />
        </div>
        <p style={looks.dim}>
          What lasts longer than the silence is notified at its end. The console shows it meanwhile.
        </p>
        {change.error && <ChangeFailure error={change.error} title="The silence was not made" />}
        <CommandLines of={ALERT_COMMANDS.silenceAlerts(place, body)} />
        <div style={looks.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={!isWhole} loading={change.isPending} onClick={() => change.mutate()}>
            Silence
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
