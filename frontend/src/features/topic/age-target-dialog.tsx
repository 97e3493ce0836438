import { Button, Group, NativeSelect, NumberInput, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { answerOf, api } from "../../api/client";
import { duration } from "../../lib/format";
import { CommandLines } from "../../shared/commands/command-lines";
import { SUBSCRIPTION_COMMANDS } from "../../shared/commands/subscription-commands";
import { type TopicId, topicQuery } from "../../shared/topic/queries";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice, Loading } from "../../ui/states";

const PATH =
  "/api/v1/clusters/{cluster}/topics/{domain}/{tenant}/{namespace}/{topic}/subscriptions/{subscription}/age-target";
const UNITS = [
  { value: "1", label: "seconds" },
  { value: "60", label: "minutes" },
  { value: "3600", label: "hours" },
  { value: "86400", label: "days" },
];

/** Sets the age that the oldest unacknowledged message of a subscription is not to exceed. */
export function AgeTargetDialog({
  topic,
  subscription,
  onClose,
}: {
  topic: TopicId;
  subscription: string;
  onClose: () => void;
}) {
  const params = { path: { ...topic, subscription } };
  const present = useQuery({
    queryKey: ["age target", params.path],
    queryFn: ({ signal }) => answerOf(api.GET(PATH, { params, signal })),
    gcTime: 0,
  });
  return (
    <Dialog onClose={onClose} title="Target age">
      {present.isError ? (
        <ErrorNotice error={present.error} title="The target could not be read" onRetry={present.refetch} />
      ) : present.data === undefined ? (
        <Loading label="Loading the target" rows={3} />
      ) : (
        <Form
          topic={topic}
          subscription={subscription}
          before={present.data.seconds}
          properties={present.data.properties}
          onClose={onClose}
        />
      )}
    </Dialog>
  );
}

function Form({
  topic,
  subscription,
  before,
  properties,
  onClose,
}: {
  topic: TopicId;
  subscription: string;
  before: number | null;
  properties: Record<string, string>;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const first = [...UNITS].reverse().find(({ value }) => (before ?? 300) % Number(value) === 0)?.value ?? "1";
  const [unit, setUnit] = useState(first);
  const [amount, setAmount] = useState<number | string>((before ?? 300) / Number(first));
  const seconds = typeof amount === "number" && amount > 0 ? Math.round(amount * Number(unit)) : null;
  const save = useMutation({
    mutationFn: (value: number | null) =>
      answerOf(api.PUT(PATH, { params: { path: { ...topic, subscription } }, body: { seconds: value } })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: topicQuery(topic).queryKey });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (seconds !== null && !save.isPending) save.mutate(seconds);
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack gap={14}>
        <p>
          While the oldest unacknowledged message of <b>{subscription}</b> is older than this, the
          subscription needs attention. {before === null ? "It has no target." : `Now: ${duration(before)}.`}
        </p>
        <Group align="end" gap={8} wrap="nowrap">
          <NumberInput
            label="Never older than"
            min={1}
            max={100_000}
            allowDecimal={false}
            data-autofocus
            value={amount}
            onChange={setAmount}
          />
          <NativeSelect
            aria-label="Unit"
            value={unit}
            data={UNITS}
            onChange={(event) => setUnit(event.currentTarget.value)}
          />
        </Group>
        {save.error && <ErrorNotice error={save.error} title="The change may not have been made" />}
        {seconds !== null && (
          <CommandLines
            of={SUBSCRIPTION_COMMANDS.setAgeTarget({ ...topic, subscription }, { seconds, properties })}
          />
        )}
        <Group justify="end" gap={8}>
          {before !== null && (
            <Button variant="default" loading={save.isPending} onClick={() => save.mutate(null)}>
              Remove the target
            </Button>
          )}
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={save.isPending} disabled={seconds === null || seconds === before}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
