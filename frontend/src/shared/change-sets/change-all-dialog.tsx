import { Button, Checkbox, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { fromLocalInput } from "../../lib/local-time";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice, Loading } from "../../ui/states";
import { PolicyForm } from "../policies/policy-form";
import { type Policy, topicPoliciesQuery } from "../policies/policy-queries";
import { problemsOf, type Texts, textsOf, toValue } from "../policies/policy-values";
import type { TopicId } from "../topic/queries";
import { type ChangeKind, createChangeSet, type NewChangeSet } from "./change-queries";
import type { Choice } from "./choice";

const KINDS: Record<Choice["of"], { value: ChangeKind; label: string }[]> = {
  topics: [
    { value: "set-policy", label: "Set a policy, or remove it" },
    { value: "unload", label: "Unload" },
    { value: "add-partitions", label: "Add partitions" },
    { value: "delete-topics", label: "Delete" },
  ],
  subscriptions: [
    { value: "skip-all", label: "Skip all messages" },
    { value: "skip", label: "Skip a number of messages" },
    { value: "reset", label: "Reset to a time" },
    { value: "delete-subscriptions", label: "Delete" },
  ],
};
type Arguments = Omit<NewChangeSet, "kind" | "query" | "objects">;

/** Chooses a change of all rows that match; its preview is a page of its own, where it is confirmed. */
export function ChangeAllDialog({
  cluster,
  of,
  query,
  total,
  sample,
  onClose,
}: Choice & { onClose: () => void }) {
  const kinds = KINDS[of].filter(({ value }) => value !== "set-policy" || sample !== undefined);
  const [kind, setKind] = useState(kinds[0]?.value as ChangeKind);
  const [args, setArgs] = useState<Arguments | string>({});
  const [tried, setTried] = useState(false);
  const navigate = useNavigate();
  const creation = useMutation({
    mutationFn: (given: Arguments) => createChangeSet(cluster, { kind, query, ...given }),
    onSuccess: ({ id }) => navigate({ to: "/c/$cluster/changes/$id", params: { cluster, id } }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (typeof args !== "string") creation.mutate(args);
  };
  const filters = Object.values(query).some(Boolean);
  const one = of === "topics" ? "topic" : "subscription";
  return (
    <Dialog
      onClose={onClose}
      title={`Change ${filters ? "all that match" : of === "topics" ? "all topics" : "all subscriptions"}`}
    >
      <form onSubmit={submit} noValidate style={{ display: "grid", gap: 12 }}>
        <p style={{ color: "var(--dim)" }}>
          {total === undefined ? (of === "topics" ? "The topics" : "The subscriptions") : plural(total, one)}{" "}
          {filters ? "match the filter" : "of the whole list"}. Topics of the system itself are left out. The
          preview shows each one first; nothing is changed before it is confirmed.
        </p>
        <NativeSelect
          label="Change"
          value={kind}
          data={kinds}
          onChange={(event) => {
            const next = event.currentTarget.value as ChangeKind;
            setKind(next);
            setArgs(initial(next));
            setTried(false);
          }}
        />
        <Fields key={kind} kind={kind} sample={sample} onChange={setArgs} />
        {tried && typeof args === "string" && (
          <p role="alert" style={{ color: "var(--bad)" }}>
            {args}
          </p>
        )}
        {creation.error && <ErrorNotice error={creation.error} title="It cannot be previewed" />}
        <div style={{ display: "flex", justifyContent: "flex-end", gap: 8 }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={creation.isPending}>
            Preview…
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The arguments of a kind before anything is typed, or the text about the missing one. */
function initial(kind: ChangeKind): Arguments | string {
  if (kind === "skip" || kind === "add-partitions") return "Give a number.";
  if (kind === "reset") return "Give a time.";
  return kind === "set-policy" ? "Choose a policy." : {};
}

interface FieldsOf {
  onChange: (args: Arguments | string) => void;
}

function Fields({ kind, sample, onChange }: FieldsOf & { kind: ChangeKind; sample: TopicId | undefined }) {
  if (kind === "set-policy" && sample) return <PolicyFields sample={sample} onChange={onChange} />;
  if (kind === "skip" || kind === "add-partitions")
    return (
      <TextInput
        label={kind === "skip" ? "Messages to skip, of each" : "Partitions of each afterwards"}
        inputMode="numeric"
        onChange={(event) => {
          const text = event.currentTarget.value.trim();
          onChange(/^[1-9]\d{0,8}$/.test(text) ? { count: Number(text) } : "Give a whole number from 1.");
        }}
      />
    );
  if (kind === "reset")
    return (
      <TextInput
        label="Time, as 2026-01-31 18:00"
        onChange={(event) => {
          const timestamp = fromLocalInput(event.currentTarget.value.trim().replace(" ", "T"));
          onChange(timestamp === null ? "Give a time." : { timestamp });
        }}
      />
    );
  if (kind === "delete-subscriptions")
    return (
      <Checkbox
        label="Disconnect their consumers; without it, those with consumers are left"
        onChange={(event) => onChange({ force: event.currentTarget.checked })}
      />
    );
  return null;
}

function PolicyFields({ sample, onChange }: FieldsOf & { sample: TopicId }) {
  const found = useQuery({ ...topicPoliciesQuery(sample), refetchInterval: false });
  const [name, setName] = useState("");
  const [texts, setTexts] = useState<Texts>({});
  const [remove, setRemove] = useState(false);
  const rows = found.data?.policies ?? [];
  const policy = rows.find((row) => row.name === name);

  const report = (row: Policy | undefined, next: Texts, removes: boolean) => {
    if (row === undefined) return onChange("Choose a policy.");
    if (removes) return onChange({ policy: row.name, value: null });
    const [problem] = Object.values(problemsOf(row, next));
    onChange(problem ?? { policy: row.name, value: toValue(row, next) });
  };
  const choose = (row: Policy | undefined, next: Texts, removes: boolean) => {
    setName(row?.name ?? "");
    setTexts(next);
    setRemove(removes);
    report(row, next, removes);
  };
  if (found.error) return <ErrorNotice error={found.error} title="The policies could not be read" />;
  if (found.isPending) return <Loading label="Loading the policies" rows={2} />;
  return (
    <>
      <NativeSelect
        label="Policy"
        value={name}
        data={[
          { value: "", label: "Choose…" },
          ...rows.map((row) => ({ value: row.name, label: localized(row.title) })),
        ]}
        onChange={(event) => {
          const row = rows.find((known) => known.name === event.currentTarget.value);
          choose(row, row ? textsOf(row, null) : {}, false);
        }}
      />
      {policy && (
        <Checkbox
          label="Remove the topics' own value"
          checked={remove}
          onChange={(event) => choose(policy, texts, event.currentTarget.checked)}
        />
      )}
      {policy && !remove && (
        <PolicyForm
          policy={policy}
          texts={texts}
          problems={{}}
          onChange={(part, text) => choose(policy, { ...texts, [part]: text }, false)}
        />
      )}
    </>
  );
}
