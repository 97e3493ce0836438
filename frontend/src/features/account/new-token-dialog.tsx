import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import type { Level, Person } from "../../api/session/calls";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import { OneTimeSecret } from "../../shared/people/one-time-secret";
import { refusalsOf } from "../../shared/people/refusals";
import { Command } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { issueToken, ownTokensQuery } from "./token-queries";

const LABELS = { name: "The name", level: "The level", expires_in_s: "The time" };
const DAY_S = 86_400;
const TIMES = [
  { value: String(7 * DAY_S), label: "7 days" },
  { value: String(30 * DAY_S), label: "30 days" },
  { value: String(90 * DAY_S), label: "90 days" },
  { value: String(365 * DAY_S), label: "1 year" },
];

/** Creates a personal token, which is shown once. */
export function NewTokenDialog({ person, onClose }: { person: Person; onClose: () => void }) {
  const client = useQueryClient();
  const nameField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [level, setLevel] = useState<Level>("read");
  const [expiry, setExpiry] = useState(String(30 * DAY_S));
  const [tried, setTried] = useState(false);
  const issue = useMutation({
    mutationFn: () => issueToken({ name: name.trim(), level, expires_in_s: Number(expiry) }),
    onSuccess: () => client.invalidateQueries({ queryKey: ownTokensQuery.queryKey }),
  });
  const refusals = refusalsOf(issue.error, LABELS);
  const missing = name.trim() === "" ? "Give a name" : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missing) nameField.current?.focus();
    else if (!issue.isPending) issue.mutate();
  };
  if (issue.data) return <Issued token={issue.data.token} onClose={onClose} />;
  const levels = LEVELS.slice(LEVELS.indexOf(person.level));
  return (
    <Dialog title="New personal token" onClose={onClose} closeOnClickOutside={!issue.isPending} size="md">
      <form onSubmit={submit} className={styles.dialog} noValidate>
        <TextInput
          ref={nameField}
          label="Name"
          description="What it is for"
          value={name}
          autoComplete="off"
          data-autofocus
          error={refusals.of.name ?? (tried ? missing : null)}
          onChange={(event) => {
            setName(event.currentTarget.value);
            if (issue.error) issue.reset();
          }}
        />
        <NativeSelect
          label="Level"
          description={`It acts as ${person.role}: ${LEVEL_WORDS[level]}`}
          value={level}
          data={levels}
          error={refusals.of.level}
          onChange={(event) => setLevel(event.currentTarget.value as Level)}
        />
        <NativeSelect
          label="Expires after"
          value={expiry}
          data={TIMES}
          error={refusals.of.expires_in_s}
          onChange={(event) => setExpiry(event.currentTarget.value)}
        />
        <p className={styles.remarks}>
          It serves at gateways: REST and the console's API. Brokers refuse it.
        </p>
        {refusals.rest && (
          <ErrorNotice error={refusals.rest} title="It is not known whether the token was created" />
        )}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={issue.isPending}>
            Create token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Issued({ token, onClose }: { token: string; onClose: () => void }) {
  return (
    <Dialog title="Done" onClose={onClose} closeOnClickOutside={false} size="md">
      <div className={styles.dialog}>
        <OneTimeSecret what="token" value={token} />
        <Command
          label="curl"
          note="after export PULSAR_TOKEN=…"
          text={`curl -H "Authorization: Bearer $PULSAR_TOKEN" ${location.origin}/admin/v2/tenants`}
        />
        <div className={styles.buttons}>
          <Button onClick={onClose} data-autofocus>
            Close
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
