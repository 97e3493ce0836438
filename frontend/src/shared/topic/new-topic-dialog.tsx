import { Button, NativeSelect, NumberInput, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { ApiError } from "../../lib/errors";
import { parseNamespace } from "../../lib/url-state";
import { ActionButton } from "../../ui/action-button";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { useWhyNot } from "../access/may";
import { CommandLines } from "../commands/command-lines";
import { COMMANDS } from "../commands/commands";
import { propertiesOf } from "../properties/property-lines";
import type { TopicRef } from "../topic-link";

const PARTITIONS_MAX = 10_000;
type Given = components["schemas"]["NewTopicRequest"];

/** Makes a topic, plain or with partitions. `scope`: tenant/namespace to begin with. */
export function NewTopicDialog({
  cluster,
  scope,
  onDone,
  onClose,
}: {
  cluster: string;
  scope: string;
  onDone: (made: TopicRef) => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const [place, setPlace] = useState(scope);
  const [judged, setJudged] = useState(scope);
  const [topic, setTopic] = useState("");
  const [domain, setDomain] = useState<Given["domain"]>("persistent");
  const [partitions, setPartitions] = useState<string | number>(0);
  const [notes, setNotes] = useState("");
  const [tried, setTried] = useState(false);
  const { tenant, namespace } = parseNamespace(place.trim());
  const isPlace = tenant !== "" && namespace !== "" && judged === place.trim();
  const whyNot = useWhyNot(cluster, { tenant, namespace }, isPlace);
  const why = isPlace ? whyNot("createTopic") : null;
  const read = propertiesOf(notes);
  const given: Given = {
    domain,
    tenant,
    namespace,
    topic,
    partitions: Number(partitions),
    properties: domain === "persistent" ? read.value : {},
  };
  const make = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/api/v1/clusters/{cluster}/topics", { params: { path: { cluster } }, body: given })),
    onSuccess: () => {
      client.invalidateQueries({ queryKey: ["tenants", cluster] });
      onDone(given);
    },
    onError: () => form.current?.querySelector<HTMLElement>("[name=topic]")?.focus(),
  });
  const refusal = make.error instanceof ApiError && make.error.isRefusal ? make.error : null;
  const count = Number(partitions);
  const problems = {
    place: /^[^/]+\/[^/]+(\/[^/]+)?$/.test(place.trim()) ? null : "Give it as tenant/namespace",
    topic: topic === "" ? "Give a name" : null,
    partitions:
      partitions !== "" && Number.isInteger(count) && count >= 0 && count <= PARTITIONS_MAX
        ? null
        : "A whole number from 0 to 10,000",
    properties: domain === "persistent" ? read.problem : null,
  };
  const [first] = Object.entries(problems).flatMap(([field, problem]) => (problem ? [field] : []));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (first) form.current?.querySelector<HTMLElement>(`[name=${first}]`)?.focus();
    else if (!make.isPending && why === null) make.mutate();
  };
  const touch = () => make.error && make.reset();
  return (
    <Dialog onClose={onClose} title="New topic" size="lg" closeOnClickOutside={!make.isPending}>
      <form ref={form} onSubmit={submit} noValidate className={styles.dialog}>
        <TextInput
          name="place"
          label="Namespace"
          description="As tenant/namespace"
          value={place}
          autoComplete="off"
          spellCheck={false}
          error={tried ? problems.place : null}
          data-autofocus={scope === "" || undefined}
          onBlur={() => setJudged(place.trim())}
          onChange={(event) => {
            setPlace(event.currentTarget.value);
            touch();
          }}
        />
        <TextInput
          name="topic"
          label="Name"
          value={topic}
          autoComplete="off"
          spellCheck={false}
          error={refusal?.message ?? (tried ? problems.topic : null)}
          data-autofocus={scope !== "" || undefined}
          onChange={(event) => {
            setTopic(event.currentTarget.value);
            touch();
          }}
        />
        <NativeSelect
          label="Domain"
          value={domain}
          data={[
            { value: "persistent", label: "Persistent: messages are stored" },
            { value: "non-persistent", label: "Non-persistent: only connected consumers receive them" },
          ]}
          onChange={(event) => {
            setDomain(event.currentTarget.value as Given["domain"]);
            touch();
          }}
        />
        <NumberInput
          name="partitions"
          label="Partitions"
          description="0 creates a topic without partitions. Partitions can be added later, and not removed."
          min={0}
          max={PARTITIONS_MAX}
          allowDecimal={false}
          allowNegative={false}
          value={partitions}
          error={problems.partitions}
          onChange={(next) => {
            setPartitions(next);
            touch();
          }}
        />
        {domain === "persistent" && (
          <Textarea
            name="properties"
            label="Properties"
            description="One per line, as name=value; may be empty"
            autosize
            minRows={2}
            maxRows={8}
            spellCheck={false}
            value={notes}
            error={problems.properties}
            onChange={(event) => {
              setNotes(event.currentTarget.value);
              touch();
            }}
          />
        )}
        {make.error && !refusal && (
          <ErrorNotice error={make.error} title="It is not known whether the topic was created" />
        )}
        {!first && <CommandLines of={COMMANDS.createTopic(given, given)} />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <ActionButton type="submit" loading={make.isPending} why={why}>
            Create topic
          </ActionButton>
        </div>
      </form>
    </Dialog>
  );
}
