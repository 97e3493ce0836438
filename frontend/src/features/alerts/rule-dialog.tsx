import { Button, Checkbox, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { Dialog } from "../../ui/dialog";
import { looks } from "./looks";
import { type Condition, channelsQuery, previewRule, type Rule, type RuleBody, saveRule } from "./queries";
import { FIGURES, hasScope, historyText, isPart, KINDS, wordsOf } from "./rule-words";

const TYPING_MS = 400;
const SEVERITIES = ["info", "warning", "error"];

/** The item that needs attention from which a rule or a silence is begun. */
export interface Begun {
  cause: string;
  scope: string;
  subscription: string;
}

const EMPTY: Condition = {
  kind: "attention",
  scope: "",
  subscription: "",
  causes: [],
  severity: "warning",
  figure: "",
  op: "above",
  threshold: 0,
  remote: "",
  part: "",
};

/** A rule in a form, with what it would do: now, and over the recorded history. */
export function RuleDialog({
  place,
  rule,
  begun,
  onClose,
}: {
  place: AlertPlace;
  rule: Rule | null;
  begun: Begun | null;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const channels = useQuery(channelsQuery(place)).data?.rows ?? [];
  const [name, setName] = useState(rule?.name ?? "");
  const [isEnabled, setEnabled] = useState(rule?.enabled ?? true);
  const [severity, setSeverity] = useState(rule?.severity ?? "warning");
  const [definition, setDefinition] = useState<Condition>(
    rule?.definition ?? {
      ...EMPTY,
      scope: begun?.scope || place.tenant,
      subscription: begun?.subscription ?? "",
      causes: begun?.cause ? [begun.cause] : [],
    },
  );
  const [causes, setCauses] = useState(definition.causes?.join(", ") ?? "");
  const [forS, setForS] = useState<number | string>(rule?.for_s ?? 60);
  const [chosen, setChosen] = useState<number[]>(rule?.channels ?? []);
  const [escalateMin, setEscalateMin] = useState<number | string>(
    rule?.escalate_s ? rule.escalate_s / 60 : "",
  );
  const [escalateTo, setEscalateTo] = useState<number[]>(rule?.escalate_to ?? []);
  const put = (change: Partial<Condition>) => setDefinition((now) => ({ ...now, ...change }));
  const figures = FIGURES[definition.kind] ?? [];
  const isAttention = definition.kind === "attention";
  const escalates = escalateMin !== "" && escalateTo.length > 0;
  const body: RuleBody = {
    name: name.trim(),
    enabled: isEnabled,
    severity,
    definition: { ...definition, causes: isAttention ? wordsOf(causes) : [] },
    for_s: Number(forS) || 0,
    channels: chosen,
    escalate_s: escalates ? Number(escalateMin) * 60 : null,
    escalate_to: escalates ? escalateTo : [],
  };
  const save = useMutation({
    mutationFn: () => saveRule(place, rule?.id ?? null, body),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  return (
    <Dialog onClose={onClose} title={rule ? "Change the rule" : "New rule"} size="xl">
      <div style={looks.form}>
        <div style={looks.fields}>
          <TextInput
            label="Name"
            required
            value={name}
            maxLength={120}
            data-autofocus
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <NativeSelect
            label="Severity"
            value={severity}
            data={SEVERITIES}
            onChange={(event) => setSeverity(event.currentTarget.value as Rule["severity"])}
          />
          <NativeSelect
            label="About"
            value={definition.kind}
            data={KINDS}
            onChange={(event) => {
              const kind = event.currentTarget.value as Condition["kind"];
              const figure = FIGURES[kind]?.[0]?.value ?? "";
              const scope = hasScope(kind) ? (definition.scope ?? "") : "";
              put({ kind, figure, scope, subscription: "", remote: "", part: "" });
            }}
          />
          {hasScope(definition.kind) && (
            <TextInput
              label="Where"
              description="Tenant, tenant/namespace or full topic name; empty: everywhere"
              value={definition.scope ?? ""}
              autoComplete="off"
              onChange={(event) => put({ scope: event.currentTarget.value.trim() })}
            />
          )}
          {definition.scope?.includes("://") && ["attention", "subscription"].includes(definition.kind) && (
            <TextInput
              label="Subscription"
              description="Empty: all of the topic"
              value={definition.subscription ?? ""}
              autoComplete="off"
              onChange={(event) => put({ subscription: event.currentTarget.value })}
            />
          )}
          {definition.kind === "link" && (
            <TextInput
              label="Cluster"
              description="Empty: every link"
              value={definition.remote ?? ""}
              autoComplete="off"
              onChange={(event) => put({ remote: event.currentTarget.value.trim() })}
            />
          )}
          {isPart(definition.kind) && (
            <TextInput
              label={definition.kind === "broker" ? "Broker" : "Bookie"}
              description="Its id; empty: each of them"
              value={definition.part ?? ""}
              autoComplete="off"
              onChange={(event) => put({ part: event.currentTarget.value.trim() })}
            />
          )}
          {isAttention ? (
            <>
              <TextInput
                label="Causes"
                description="Codes with commas between, as no-consumer; empty: all"
                value={causes}
                autoComplete="off"
                onChange={(event) => setCauses(event.currentTarget.value)}
              />
              <NativeSelect
                label="Least severity of the item"
                value={definition.severity ?? "warning"}
                data={SEVERITIES}
                onChange={(event) => put({ severity: event.currentTarget.value as Rule["severity"] })}
              />
            </>
          ) : (
            <>
              <NativeSelect
                label="Figure"
                value={definition.figure ?? ""}
                data={figures}
                onChange={(event) => put({ figure: event.currentTarget.value })}
              />
              <NativeSelect
                label="Is"
                value={definition.op ?? "above"}
                data={["above", "below"]}
                onChange={(event) => put({ op: event.currentTarget.value as "above" | "below" })}
              />
              <NumberInput
                label="Threshold"
                value={definition.threshold ?? 0}
                thousandSeparator=","
                onChange={(value) => put({ threshold: Number(value) || 0 })}
              />
            </>
          )}
          <NumberInput label="For (seconds)" value={forS} min={0} max={86_400} onChange={setForS} />
        </div>
        <Preview place={place} definition={body.definition} forS={body.for_s ?? 0} />
        <ChannelChoice label="Notify" channels={channels} value={chosen} onChange={setChosen} />
        {channels.length > 0 && (
          <>
            <NumberInput
              label="Escalate after (minutes without acknowledgement)"
              description="Empty: never"
              value={escalateMin}
              min={1}
              max={1440}
              onChange={setEscalateMin}
            />
            {escalateMin !== "" && (
              <ChannelChoice
                label="Escalate to"
                channels={channels}
                value={escalateTo}
                onChange={setEscalateTo}
              />
            )}
          </>
        )}
        <Checkbox
          label="The rule is on"
          checked={isEnabled}
          onChange={(event) => setEnabled(event.currentTarget.checked)}
        />
        {save.error && <ChangeFailure error={save.error} title="The rule was not saved" />}
        <CommandLines
          of={
            rule
              ? ALERT_COMMANDS.changeAlertRule(place, rule.id, body)
              : ALERT_COMMANDS.createAlertRule(place, body)
          }
        />
        <div style={looks.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={body.name === ""} loading={save.isPending} onClick={() => save.mutate()}>
            Save
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function ChannelChoice({
  label,
  channels,
  value,
  onChange,
}: {
  label: string;
  channels: { id: number; name: string }[];
  value: number[];
  onChange: (ids: number[]) => void;
}) {
  return (
    <fieldset style={looks.form}>
      <legend>{label}</legend>
      {channels.length === 0 && <p style={looks.dim}>There is no channel yet: the tab Channels makes one.</p>}
      <div style={looks.row}>
        {channels.map(({ id, name }) => (
          <Checkbox
            key={id}
            label={name}
            checked={value.includes(id)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...value, id] : value.filter((other) => other !== id))
            }
          />
        ))}
      </div>
    </fieldset>
  );
}

function Preview({ place, definition, forS }: { place: AlertPlace; definition: Condition; forS: number }) {
  const [asked] = useDebouncedValue(JSON.stringify({ definition, for_s: forS }), TYPING_MS);
  const answer = useQuery({
    queryKey: ["alert-preview", place, asked],
    queryFn: () => previewRule(place, JSON.parse(asked)),
    retry: false,
    gcTime: 0,
  });
  const preview = answer.data;
  return (
    <div style={looks.preview} aria-live="polite" data-preview>
      {answer.error ? (
        <span style={looks.bad} lang="en">
          {answer.error.message}
        </span>
      ) : !preview ? (
        <span>Computing the preview…</span>
      ) : (
        <>
          <b lang="en">{preview.words}</b>
          <span>
            {preview.now === 0
              ? "Nothing meets it now"
              : `${plural(preview.now, "object meets", "objects meet")} it now`}
            {preview.examples.length > 0 && `: ${preview.examples.map(localized).join("; ")}`}
            {preview.now > preview.examples.length && preview.examples.length > 0 && " …"}
          </span>
          {preview.problem && (
            <span style={looks.bad}>
              Not all is known: <span lang="en">{preview.problem}</span>.
            </span>
          )}
          <span>{historyText(preview)}</span>
          {preview.note && (
            <span style={looks.dim} lang="en">
              {preview.note}
            </span>
          )}
        </>
      )}
    </div>
  );
}
