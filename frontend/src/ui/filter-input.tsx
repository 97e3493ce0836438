import { CloseButton, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import styles from "./filter-input.module.css";
import { SearchIcon } from "./icons";

const WRITE_MS = 60;
/** Keystrokes closer than this are one entry of the browser's history. */
export const ENTRY_MS = 2_000;

/**
 * Text that filters while it is typed. The field is ahead of the address by a few keystrokes at most. `write`
 * receives whether to extend the history entry that the typing before it began.
 */
export function FilterInput({
  label,
  value,
  write,
}: {
  label: string;
  value: string;
  write: (value: string, replace: boolean) => void;
}) {
  const [text, setText] = useState(value);
  const [written, setWritten] = useState(value);
  if (value !== written) {
    // The address changed by something else than this field: a link, back, "Clear filters".
    setWritten(value);
    setText(value);
  }
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const typedAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const now = performance.now();
      const replace = now - typedAt.current < ENTRY_MS;
      typedAt.current = now;
      setWritten(next);
      write(next, replace);
    }, WRITE_MS);
  };
  return (
    <TextInput
      size="xs"
      aria-label={label}
      placeholder={label}
      className={styles.query}
      value={text}
      maxLength={500}
      spellCheck={false}
      onChange={(event) => change(event.currentTarget.value)}
      onBlur={() => {
        typedAt.current = Number.NEGATIVE_INFINITY;
      }}
      leftSection={<SearchIcon size={14} />}
      rightSection={
        text ? <CloseButton size={24} aria-label={`Clear ${label}`} onClick={() => change("")} /> : undefined
      }
    />
  );
}
