import { TextInput } from "@mantine/core";
import { type FormEvent, useRef, useState } from "react";
import { setUp } from "../../api/session/session";
import { NewPassword } from "../../shared/people/new-password";
import { refusalsOf } from "../../shared/people/refusals";
import { AttemptError, SubmitButton, useAttempt } from "./attempt";
import { Frame } from "./frame";
import styles from "./sign-in.module.css";

const LABELS = { code: "The code", name: "The name", password: "The password" };

/** Creates the first person of an instance, by the code that its start wrote. */
export function SetUp() {
  const [code, setCode] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { error, isPending, waitS, run } = useAttempt(() => setUp(code.trim(), name.trim(), password));
  const refusals = refusalsOf(error, LABELS);
  const [tried, setTried] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const needed = (value: string, text: string) => (tried && value.trim() === "" ? text : undefined);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    const empty = [...(form.current?.querySelectorAll("input") ?? [])].find(
      ({ value }) => value.trim() === "",
    );
    if (empty) empty.focus();
    else if (!isPending && waitS === 0) run();
  };
  return (
    <Frame
      title="Set up Magnetar"
      note={`Nobody can sign in at ${location.host} yet. Create the first person, a superuser.`}
    >
      <form ref={form} onSubmit={submit} className={styles.form} noValidate>
        <AttemptError error={refusals.rest} />
        <TextInput
          label="One-time code"
          description="In the file set-up-code of the gateway's data folder; a terminal shows it at the start"
          name="one-time-code"
          autoComplete="off"
          spellCheck={false}
          autoFocus
          value={code}
          error={refusals.of.code ?? needed(code, "Enter the code")}
          onChange={(event) => setCode(event.currentTarget.value)}
        />
        <TextInput
          label="Name"
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          value={name}
          error={refusals.of.name ?? needed(name, "Choose a name")}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NewPassword
          label="Password"
          value={password}
          error={refusals.of.password ?? needed(password, "Choose a password")}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        <SubmitButton label="Create and sign in" isPending={isPending} waitS={waitS} />
      </form>
    </Frame>
  );
}
