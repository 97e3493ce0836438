import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, dateTime, plural } from "../../lib/format";
import type { WhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { ALERT_COMMANDS, type AlertPlace } from "../../shared/commands/alert-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Dialog } from "../../ui/dialog";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { looks } from "./looks";
import {
  type Channel,
  type ChannelBody,
  channelsQuery,
  deleteChannel,
  saveChannel,
  testChannel,
} from "./queries";
import { wordsOf } from "./rule-words";

const KINDS = [
  { value: "webhook", label: "Webhook (JSON)" },
  { value: "slack", label: "Slack or compatible" },
  { value: "email", label: "E-mail" },
];

/** The destinations of notifications. The URL of a channel is never shown again. */
export function Channels({ place, whyNot }: { place: AlertPlace; whyNot: WhyNot }) {
  const stored = useQuery(channelsQuery(place));
  const [edited, setEdited] = useState<Channel | "new" | null>(null);
  const failure = failureOf(stored);
  const rows = stored.data?.rows;
  return (
    <Panel
      title="Channels"
      note={rows && count(rows.length)}
      actions={
        <ActionButton size="compact-sm" why={whyNot("createAlertChannel")} onClick={() => setEdited("new")}>
          New channel…
        </ActionButton>
      }
      flush
    >
      {failure && <ErrorNotice error={failure} title="The channels could not be read" />}
      {!rows && !failure && <Loading label="Loading the channels" rows={3} />}
      {rows?.length === 0 && (
        <Empty title="No channel">
          <p>Without one the rules fire on this page alone.</p>
        </Empty>
      )}
      <ul style={looks.items}>
        {rows?.map((channel) => (
          <Row
            key={channel.id}
            channel={channel}
            place={place}
            whyNot={whyNot}
            onEdit={() => setEdited(channel)}
          />
        ))}
      </ul>
      {edited && (
        <ChannelDialog
          place={place}
          channel={edited === "new" ? null : edited}
          hasMail={stored.data?.mail ?? true}
          onClose={() => setEdited(null)}
        />
      )}
    </Panel>
  );
}

function Row({
  channel,
  place,
  whyNot,
  onEdit,
}: {
  channel: Channel;
  place: AlertPlace;
  whyNot: WhyNot;
  onEdit: () => void;
}) {
  const client = useQueryClient();
  const onSettled = () => client.invalidateQueries({ queryKey: ["alerts"] });
  const test = useMutation({ mutationFn: () => testChannel(place, channel.id), onSettled });
  const removal = useMutation({ mutationFn: () => deleteChannel(place, channel.id), onSettled });
  return (
    <li style={looks.item}>
      <div style={looks.row}>
        <b>{channel.name}</b>
        <Badge>{channel.kind}</Badge>
        <span style={looks.dim}>{channel.host ? `${channel.host}/…` : channel.recipients.join(", ")}</span>
      </div>
      <span style={channel.error ? looks.bad : looks.dim}>
        {channel.sent_at === null ? "Nothing was sent yet" : `Last sent ${dateTime(channel.sent_at)}`}
        {channel.waiting > 0 && ` · ${plural(channel.waiting, "notification")} waiting`}
        {channel.error && <span lang="en"> · {channel.error}</span>}
      </span>
      <div style={looks.row}>
        <ActionButton
          size="compact-sm"
          variant="default"
          why={whyNot("testAlertChannel")}
          loading={test.isPending}
          aria-label={`Test channel ${channel.name}`}
          onClick={() => test.mutate()}
        >
          Send a test
        </ActionButton>
        <ActionButton
          size="compact-sm"
          variant="default"
          why={whyNot("changeAlertChannel")}
          aria-label={`Change channel ${channel.name}`}
          onClick={onEdit}
        >
          Change…
        </ActionButton>
        <ActionButton
          size="compact-sm"
          variant="default"
          why={whyNot("deleteAlertChannel")}
          loading={removal.isPending}
          aria-label={`Delete channel ${channel.name}`}
          onClick={() => removal.mutate()}
        >
          Delete
        </ActionButton>
        <span role="status">
          {test.data && (test.data.accepted ? "The test was accepted" : `Not accepted: ${test.data.error}`)}
        </span>
      </div>
      {(test.error ?? removal.error) && (
        <ChangeFailure error={test.error ?? removal.error} title="It was not done" />
      )}
      <CommandLines of={ALERT_COMMANDS.testAlertChannel(place, channel.id)} note="Sends a test." />
      <CommandLines of={ALERT_COMMANDS.deleteAlertChannel(place, channel.id)} note="Deletes the channel." />
    </li>
  );
}

function ChannelDialog({
  place,
  channel,
  hasMail,
  onClose,
}: {
  place: AlertPlace;
  channel: Channel | null;
  hasMail: boolean;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [name, setName] = useState(channel?.name ?? "");
  const [kind, setKind] = useState<Channel["kind"]>(channel?.kind ?? "webhook");
  const [url, setUrl] = useState("");
  const [recipients, setRecipients] = useState(channel?.recipients.join(", ") ?? "");
  const body: ChannelBody = {
    name: name.trim(),
    kind,
    secret_url: kind === "email" ? "" : url.trim(),
    recipients: kind === "email" ? wordsOf(recipients) : [],
  };
  const change = useMutation({
    mutationFn: () => saveChannel(place, channel?.id ?? null, body),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries({ queryKey: ["alerts"] }),
  });
  const keepsUrl = channel !== null && channel.kind === kind;
  const isWhole =
    body.name !== "" &&
    (kind === "email" ? (body.recipients?.length ?? 0) > 0 : body.secret_url !== "" || keepsUrl);
  return (
    <Dialog onClose={onClose} title={channel ? "Change the channel" : "New channel"} size="lg">
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
            label="Kind"
            value={kind}
            data={KINDS}
            onChange={(event) => setKind(event.currentTarget.value as Channel["kind"])}
          />
        </div>
        {kind === "email" ? (
          <TextInput
            label="Recipients"
            description="Addresses, with commas between"
            value={recipients}
            autoComplete="off"
            onChange={(event) => setRecipients(event.currentTarget.value)}
          />
        ) : (
          <TextInput
            label="URL"
            description={
              keepsUrl
                ? "Empty: it stays as it is. It is shown to nobody."
                : "https:// at a public address, or what the setting alert_destinations permits. It is shown to nobody."
            }
            type="password"
            value={url}
            autoComplete="new-password"
            onChange={(event) => setUrl(event.currentTarget.value)}
          />
        )}
        {kind === "email" && !hasMail && (
          <Notice tone="info">
            <p>The gateway has no mail server: its settings smtp_host and mail_from are empty.</p>
          </Notice>
        )}
        {change.error && <ChangeFailure error={change.error} title="The channel was not saved" />}
        <CommandLines
          of={
            channel
              ? ALERT_COMMANDS.changeAlertChannel(place, channel.id, body)
              : ALERT_COMMANDS.createAlertChannel(place, body)
          }
        />
        <div style={looks.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={!isWhole} loading={change.isPending} onClick={() => change.mutate()}>
            Save
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
