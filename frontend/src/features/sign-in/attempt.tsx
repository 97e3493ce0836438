import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { ApiError } from "../../lib/errors";
import { duration, time } from "../../lib/format";
import { ErrorNotice, Notice } from "../../ui/states";

/** An attempt that a form makes. `waitS`: seconds until the gateway takes the next one. */
export function useAttempt(attempt: () => Promise<void>) {
  const [error, setError] = useState<ApiError | null>(null);
  const [isPending, setPending] = useState(false);
  const [until, setUntil] = useState(0);
  const waitS = useSecondsUntil(until);
  /** Returns why it failed; null when it did not. */
  const run = async (): Promise<ApiError | null> => {
    setPending(true);
    setError(null);
    try {
      await attempt();
      return null;
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      setUntil(Date.now() + retryAfterS(failure) * 1000);
      return failure;
    } finally {
      setPending(false);
    }
  };
  return { error, isPending, waitS, run };
}

function retryAfterS(error: ApiError): number {
  const { retry_after_s: seconds } = error.body;
  return error.status === 429 && typeof seconds === "number" ? seconds : 0;
}

const TICK_MS = 250;

function useSecondsUntil(at: number): number {
  const left = Math.max(0, Math.ceil((at - Date.now()) / 1000));
  const [, setTick] = useState(0);
  const isWaiting = left > 0;
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  return left;
}

/** The reason of a failed attempt: refused, throttled until a time, or not answered. */
export function AttemptError({ error }: { error: ApiError | null }) {
  if (error === null) return null;
  if (!error.isRefusal) return <ErrorNotice error={error} title="The gateway did not answer" />;
  const seconds = retryAfterS(error);
  return (
    <div role="alert">
      <Notice tone="error">
        {seconds > 0 ? (
          `Too many attempts. Try again at ${time(Date.now() + seconds * 1000)}.`
        ) : (
          <span lang="en">{withStop(error.message)}</span>
        )}
      </Notice>
    </div>
  );
}

function withStop(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export function SubmitButton({
  label,
  isPending,
  waitS,
}: {
  label: string;
  isPending: boolean;
  waitS: number;
}) {
  return (
    <Button type="submit" size="sm" loading={isPending} disabled={waitS > 0}>
      {waitS > 0 ? `Wait ${duration(waitS)}` : label}
    </Button>
  );
}
