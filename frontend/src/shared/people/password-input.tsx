import { ActionIcon, TextInput, type TextInputProps } from "@mantine/core";
import { useState } from "react";
import { LANGUAGE } from "../../lib/words";
import { HiddenIcon } from "../../ui/icons";
import { EyeIcon } from "./icons";

/** A field for a password, which its button shows. */
export function PasswordInput({ label, ...rest }: TextInputProps & { label: string }) {
  const [isShown, setShown] = useState(false);
  return (
    <TextInput
      {...rest}
      label={label}
      type={isShown ? "text" : "password"}
      spellCheck={false}
      autoCapitalize="none"
      rightSection={
        <ActionIcon
          size={28}
          aria-label={`Show ${LANGUAGE === "en" ? label.toLowerCase() : label}`}
          aria-pressed={isShown}
          onClick={() => setShown(!isShown)}
        >
          {isShown ? <HiddenIcon /> : <EyeIcon />}
        </ActionIcon>
      }
    />
  );
}
