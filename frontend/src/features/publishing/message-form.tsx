import { Button, NativeSelect, NumberInput, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { environmentQuery } from "../../api/environment";
import { asApiError } from "../../lib/errors";
import { plural } from "../../lib/format";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";
import { useWhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS } from "../../shared/commands/commands";
import { looks } from "../../shared/messages/looks";
import { propertiesOf } from "../../shared/properties/property-lines";
import { nameOf, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { ErrorNotice } from "../../ui/states";
import { Outcome, ProblemsNotice } from "./outcome";
import {
  check,
  DELIVERIES,
  type Delivery,
  type Draft,
  messageOf,
  publish,
  VALUE_FORMS,
  type ValueForm,
} from "./publish";
import { schemasQuery } from "./queries";

const NEWEST = "newest";

/** `firstSchema`: the version that is chosen at first, -1 for none, null for the newest. */
export function MessageForm({
  title,
  first,
  firstSchema,
}: {
  title: string;
  first: Draft;
  firstSchema: number | null;
}) {
  const id = useTopicId();
  const [draft, setDraft] = useState(first);
  const [schema, setSchema] = useState(firstSchema === null ? NEWEST : String(firstSchema));
  const versions = useQuery(schemasQuery(id)).data;
  const environment = useQuery(environmentQuery).data;
  const why = useWhyNot(id.cluster, { tenant: id.tenant, namespace: id.namespace, topic: nameOf(id) })(
    "publishMessages",
  );
  const { value: properties, problem } = propertiesOf(draft.properties);
  const message = messageOf(draft, properties);
  const version = schema === NEWEST ? null : Number(schema);
  const trial = useMutation({ mutationFn: () => check(id, { messages: [message] }, version) });
  const send = useMutation({
    mutationFn: () => publish(id, { messages: [message] }, version),
    onMutate: () => trial.reset(),
  });
  const set = (more: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...more }));
    trial.reset();
    send.reset();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (problem === null && why === null && !send.isPending) send.mutate();
  };
  const refusal = send.error && asApiError(send.error).status === 400 ? asApiError(send.error) : null;
  const effective = version ?? versions?.newest ?? -1;
  return (
    <Panel title={title} note="It is published under your own role.">
      <form style={looks.form} onSubmit={submit}>
        <div style={looks.fields}>
          <NativeSelect
            label="Value"
            data={[...VALUE_FORMS]}
            value={draft.form}
            onChange={(event) => set({ form: event.currentTarget.value as ValueForm })}
          />
          <NativeSelect
            label="Schema"
            data={[
              { value: NEWEST, label: newestText(versions) },
              ...(versions?.versions ?? []).map(({ version: number, type }) => ({
                value: String(number),
                label: `version ${number} (${type ?? "unreadable"})`,
              })),
              { value: "-1", label: "none: bytes" },
            ]}
            value={schema}
            onChange={(event) => {
              setSchema(event.currentTarget.value);
              set({});
            }}
          />
          <TextInput
            label={draft.keyIsBase64 ? "Key, in base64" : "Key"}
            value={draft.key}
            onChange={(event) => set({ key: event.currentTarget.value })}
          />
          <TextInput
            label="Event time"
            type="datetime-local"
            step={1}
            value={draft.event === null ? "" : toLocalInput(draft.event)}
            onChange={(event) => set({ event: fromLocalInput(event.currentTarget.value) })}
          />
          <NativeSelect
            label="Deliver"
            data={[...DELIVERIES]}
            value={draft.delivery}
            onChange={(event) => set({ delivery: event.currentTarget.value as Delivery })}
          />
          {draft.delivery === "after" && (
            <NumberInput
              label="Seconds, for shared subscriptions"
              min={0.001}
              max={31_536_000}
              required
              value={draft.seconds}
              onChange={(value) => set({ seconds: String(value) })}
            />
          )}
          {draft.delivery === "at" && (
            <TextInput
              label="Not before, for shared subscriptions"
              type="datetime-local"
              step={1}
              required
              value={draft.at === null ? "" : toLocalInput(draft.at)}
              onChange={(event) => set({ at: fromLocalInput(event.currentTarget.value) })}
            />
          )}
        </div>
        {draft.form !== "none" && (
          <Textarea
            label={draft.form === "text" ? "Text of the value" : "Bytes of the value, in base64"}
            styles={{ input: looks.value }}
            autosize
            minRows={5}
            maxRows={24}
            spellCheck={false}
            value={draft.value}
            error={refusal?.message}
            onChange={(event) => set({ value: event.currentTarget.value })}
          />
        )}
        <Textarea
          label="Properties"
          description="One per line, as name=value"
          autosize
          minRows={2}
          maxRows={12}
          spellCheck={false}
          value={draft.properties}
          error={problem}
          onChange={(event) => set({ properties: event.currentTarget.value })}
        />
        <div style={looks.choices}>
          <ActionButton type="submit" why={why} disabled={problem !== null} loading={send.isPending}>
            Publish
          </ActionButton>
          <Button
            variant="default"
            disabled={problem !== null || why !== null}
            loading={trial.isPending}
            onClick={() => trial.mutate()}
          >
            Check
          </Button>
        </div>
      </form>
      <div aria-live="polite">
        {trial.data &&
          (trial.data.wrong === 0 ? (
            <p role="status">
              It is right: {plural(trial.data.bytes, "byte")} of{" "}
              {trial.data.schema_type ?? "bytes without a schema"}.
            </p>
          ) : (
            <ProblemsNotice
              problems={trial.data.problems.map(({ field, reason }) => ({ place: field, reason }))}
            />
          ))}
        {trial.error && <ErrorNotice error={trial.error} title="It could not be checked" />}
        {send.error && !refusal && (
          <ChangeFailure
            error={send.error}
            title="It was not published"
            unknown="It is not known whether it was published"
          />
        )}
        {send.data && <Outcome receipt={send.data} />}
      </div>
      <CommandLines
        of={COMMANDS.publishMessages(id, {
          message,
          schema: effective < 0 ? null : effective,
          brokerUrl: environment?.broker_url || "pulsar://BROKER:6650",
        })}
      />
    </Panel>
  );
}

function newestText(
  versions: { newest: number; versions: { version: number; type: string | null }[] } | undefined,
) {
  if (!versions) return "the newest version";
  const found = versions.versions.find(({ version }) => version === versions.newest);
  return found ? `newest: ${found.version} (${found.type ?? "unreadable"})` : "none: the topic has none";
}
