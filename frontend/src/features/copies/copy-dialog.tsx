import { Button, Checkbox, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { count, dateTime } from "../../lib/format";
import { CommandLines } from "../../shared/commands/command-lines";
import { COPY_COMMANDS } from "../../shared/commands/copy-commands";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice, Notice } from "../../ui/states";
import { looks } from "./looks";
import {
  type CopyBody,
  type CopyPreview,
  type GroupKey,
  previewCopy,
  RATE,
  startCopy,
  type Topic,
} from "./queries";
import { matchedText, scannedText, shortName } from "./words";

const CONDITIONS = [
  ["key", "Key", "the whole key"],
  ["property", "Property", "name=value or name"],
  ["text", "Text in the value", "any part of it"],
  ["first", "From position", "ledger:entry"],
  ["last", "To position", "ledger:entry"],
] as const;

/** Copies, moves or redrives messages of a topic: form, preview, start. `group`: of dead letters. */
export function CopyDialog({
  topic,
  name,
  group,
  toOrigin,
  onClose,
}: {
  topic: Topic;
  name: string;
  group?: GroupKey | undefined;
  toOrigin: boolean;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [isToOrigin, setToOrigin] = useState(toOrigin);
  const [asked, setAsked] = useState<CopyBody | null>(null);
  const preview = useMutation({ mutationFn: (body: CopyBody) => previewCopy(topic, body) });
  const start = useMutation({
    mutationFn: (token: string) => startCopy(topic, token),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["copies"] });
      await navigate({ to: "/c/$cluster/copies", params: { cluster: topic.cluster } });
      onClose();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const field = (key: string) => String(form.get(key) ?? "").trim() || null;
    const property = field("property");
    const body: CopyBody = {
      target: isToOrigin ? null : field("target"),
      subscription: field("subscription"),
      rate: Number(field("rate")?.replaceAll(/\D/g, "")) || RATE,
      conditions: {
        key: field("key"),
        text: field("text"),
        first: field("first"),
        last: field("last"),
        properties: property ? [property] : [],
        group: group
          ? {
              origin: group.origin,
              subscription: group.subscription,
              reason: group.reason,
              shape: group.shape,
            }
          : null,
      },
    };
    setAsked(body);
    preview.mutate(body);
  };
  const seen = preview.data;
  return (
    <Dialog onClose={onClose} size="lg" title={isToOrigin ? "Redrive dead letters" : "Copy messages"}>
      <form style={looks.form} onSubmit={submit} onChange={() => preview.reset()} noValidate>
        <p>
          Messages of <b>{shortName(name)}</b>, as they are stored now
          {group && (
            <>
              , with the reason <b>{group.reason || "none given"}</b> and the shape <b>{group.shape}</b>
            </>
          )}
          .
        </p>
        <Checkbox
          label="To the topics that they come from"
          checked={isToOrigin}
          onChange={(event) => setToOrigin(event.currentTarget.checked)}
        />
        <div style={looks.fields}>
          {!isToOrigin && <TextInput label="To the topic" name="target" required data-autofocus />}
          <TextInput
            label="Move what this subscription has"
            name="subscription"
            placeholder="empty: copy, acknowledge nothing"
          />
          <NumberInput
            label="Messages a second"
            name="rate"
            min={1}
            max={100_000}
            allowDecimal={false}
            defaultValue={RATE}
          />
          {CONDITIONS.map(([key, label, hint]) => (
            <TextInput key={key} label={label} name={key} placeholder={hint} />
          ))}
        </div>
        {preview.error && <ErrorNotice error={preview.error} title="There is no preview" />}
        {start.error && <ErrorNotice error={start.error} title="The copy may not have been started" />}
        <div role="status">{seen && <Preview seen={seen} />}</div>
        {asked && seen && <CommandLines of={COPY_COMMANDS.copyMessages(topic, asked)} />}
        <div style={{ ...looks.row, justifyContent: "flex-end" }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" variant={seen ? "default" : "filled"} loading={preview.isPending}>
            Preview
          </Button>
          {seen && (
            <Button
              loading={start.isPending}
              disabled={seen.matched === 0 || seen.targets.every(({ problem }) => problem)}
              onClick={() => start.mutate(seen.token)}
            >
              {seen.mode === "move" ? "Move them" : "Copy them"}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function Preview({ seen }: { seen: CopyPreview }) {
  return (
    <div style={looks.preview}>
      <b>{matchedText(seen)}</b>
      <span style={looks.dim}>
        {scannedText(seen)}
        {seen.first_published !== null &&
          seen.last_published !== null &&
          ` Published from ${dateTime(seen.first_published)} to ${dateTime(seen.last_published)}.`}
      </span>
      <ul style={looks.list}>
        {seen.targets.map((row) => (
          <li key={row.topic}>
            {count(row.messages)} to {shortName(row.topic)}
            {row.problem
              ? ` — not copied: ${row.problem}`
              : row.deduplicated
                ? " — each once"
                : " — at least once"}
          </li>
        ))}
        {seen.without_origin > 0 && <li>{count(seen.without_origin)} name no origin, and are not copied</li>}
      </ul>
      {seen.at_least_once && (
        <Notice tone="warning">
          <p>
            Without deduplication at the target, a failure in the middle may leave some messages there twice.
          </p>
        </Notice>
      )}
    </div>
  );
}
