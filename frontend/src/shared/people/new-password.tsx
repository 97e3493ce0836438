import type { ComponentProps } from "react";
import { PasswordInput } from "./password-input";

const CHARS_MIN = 10;

/** A password that is being chosen; the gateway says what else it refuses. */
export function NewPassword(props: ComponentProps<typeof PasswordInput>) {
  return (
    <PasswordInput
      description={`At least ${CHARS_MIN} characters, and none that is easily guessed`}
      name="new-password"
      autoComplete="new-password"
      {...props}
    />
  );
}
