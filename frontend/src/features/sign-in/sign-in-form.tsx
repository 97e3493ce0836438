import { Button, TextInput } from "@mantine/core";
import { type FormEvent, useRef, useState } from "react";
import type { Session } from "../../api/session/calls";
import { NewPassword } from "../../shared/people/new-password";
import { PasswordInput } from "../../shared/people/password-input";
import { refusalsOf } from "../../shared/people/refusals";
import { Notice } from "../../ui/states";
import { AttemptError, SubmitButton, useAttempt } from "./attempt";
import styles from "./sign-in.module.css";

const LABELS = { new_password: "New password" };

/** Name and password, and another password where the first is for one sign-in. `name` is fixed for a certain person. */
export function SignInForm({
  name: fixed,
  onSubmit,
}: {
  name?: string;
  onSubmit: (name: string, password: string, next: string) => Promise<void>;
}) {
  const [name, setName] = useState(fixed ?? "");
  const [password, setPassword] = useState("");
  const [next, setNext] = useState<string | null>(null);
  const [tried, setTried] = useState(false);
  const nameField = useRef<HTMLInputElement>(null);
  const passwordField = useRef<HTMLInputElement>(null);
  const nextField = useRef<HTMLInputElement>(null);
  const { error, isPending, waitS, run } = useAttempt(() => onSubmit(name.trim(), password, next ?? ""));
  const isAskedForNext = error?.body.password_change_needed === true;
  const refusals = refusalsOf(isAskedForNext ? null : error, LABELS);
  const missing = [
    name.trim() === "" && nameField,
    password === "" && passwordField,
    next === "" && nextField,
  ].find((field) => field !== false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missing) missing.current?.focus();
    if (missing || isPending || waitS > 0) return;
    setTried(false);
    const failure = await run();
    if (failure?.body.password_change_needed) setNext("");
    else if (failure?.status === 401) {
      setPassword("");
      setNext(null);
      passwordField.current?.focus();
    }
  };
  return (
    <form onSubmit={submit} className={styles.form} noValidate>
      {next !== null && !refusals.rest ? (
        <div role="status">
          <Notice tone="info">An administrator set this password for one sign-in. Choose your own.</Notice>
        </div>
      ) : (
        <AttemptError error={refusals.rest} />
      )}
      <TextInput
        ref={nameField}
        label="Name"
        name="username"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        value={name}
        readOnly={fixed !== undefined || next !== null}
        error={tried && name.trim() === "" ? "Enter your name" : undefined}
        autoFocus={fixed === undefined}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <PasswordInput
        ref={passwordField}
        label="Password"
        name="password"
        autoComplete="current-password"
        value={password}
        readOnly={next !== null}
        error={tried && password === "" ? "Enter your password" : undefined}
        autoFocus={fixed !== undefined}
        data-autofocus={fixed !== undefined || undefined}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
      {next !== null && (
        <NewPassword
          ref={nextField}
          label="New password"
          value={next}
          autoFocus
          error={refusals.of.new_password ?? (tried && next === "" ? "Choose a password" : undefined)}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
      )}
      <SubmitButton
        label={next === null ? "Sign in" : "Set password and sign in"}
        isPending={isPending}
        waitS={waitS}
      />
    </form>
  );
}

/** A button for each provider, which returns to `next`. */
export function Providers({ providers, next }: { providers: Session["providers"]; next: string }) {
  if (providers.length === 0) return null;
  return (
    <div className={styles.providers}>
      {providers.map(({ name, title, href }) => (
        <Button
          key={name}
          component="a"
          size="sm"
          variant="default"
          href={`${href}?next=${encodeURIComponent(next)}`}
        >
          Sign in with {title}
        </Button>
      ))}
    </div>
  );
}
