import { NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { serverNow } from "../../lib/clock";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";
import styles from "./cursor.module.css";
import type { CursorChange } from "./cursor-queries";

interface FormProps {
  change: CursorChange | null;
  onChange: (to: CursorChange | null) => void;
}

const AGO = [
  { value: "", label: "Go to…" },
  { value: "1", label: "1 minute ago" },
  { value: "10", label: "10 minutes ago" },
  { value: "60", label: "1 hour ago" },
  { value: "1440", label: "1 day ago" },
];

export function ResetForm({ change, onChange }: FormProps) {
  const [text, setText] = useState(() => toLocalInput(change?.timestamp ?? serverNow()));
  const at = fromLocalInput(text);
  const put = (next: string) => {
    setText(next);
    const timestamp = fromLocalInput(next);
    onChange(timestamp === null ? null : { timestamp });
  };
  return (
    <div className={styles.row}>
      <TextInput
        type="datetime-local"
        step={1}
        label="Move to messages published from"
        description="In this browser's time zone"
        value={text}
        error={at === null ? "Give a full date and time" : undefined}
        onChange={(event) => put(event.currentTarget.value)}
      />
      <NativeSelect
        aria-label="Go to"
        data={AGO}
        value=""
        onChange={(event) => {
          const minutes = Number(event.currentTarget.value);
          if (minutes > 0) put(toLocalInput(serverNow() - minutes * 60_000));
        }}
      />
    </div>
  );
}

export function SkipForm({ change, onChange }: FormProps) {
  const [value, setValue] = useState<string | number>(change?.count ?? 1);
  return (
    <NumberInput
      label="Entries to skip"
      description="From the oldest unacknowledged one on. An entry is a message, or a batch of messages."
      min={1}
      max={Number.MAX_SAFE_INTEGER}
      allowDecimal={false}
      allowNegative={false}
      thousandSeparator=","
      value={value}
      error={change === null ? "A whole number, 1 or more" : undefined}
      onChange={(next) => {
        setValue(next);
        const number = Number(next);
        onChange(next !== "" && Number.isSafeInteger(number) && number >= 1 ? { count: number } : null);
      }}
    />
  );
}
