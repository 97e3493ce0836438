import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { dateTime } from "../../../lib/format";
import { ChangeDialog } from "../../../shared/changes/change-dialog";
import { COMMANDS } from "../../../shared/commands/commands";
import styles from "../../../ui/dialog.module.css";
import { Fact } from "../../../ui/fact";
import { CheckIcon } from "../../../ui/icons";
import {
  applySetting,
  previewSetting,
  type Setting,
  type SettingPreview,
  type SettingReceipt,
} from "./setting-queries";
import { allowedText, changeOf, doneOf, remarksOf, sourceOf, valuesText } from "./setting-words";

interface Wanted {
  value: string | null;
}

/** Stores a setting for all brokers, or removes the stored value. */
export function SettingDialog({
  cluster,
  setting,
  remove,
  onChanged,
  onClose,
}: {
  cluster: string;
  setting: Setting;
  remove: boolean;
  onChanged: () => void;
  onClose: () => void;
}) {
  // The row stays as it was when the dialog opened, whatever changes on the page behind it.
  const [row] = useState(setting);
  const [text, setText] = useState(row.stored ?? row.values[0]?.value ?? row.default);
  return (
    <ChangeDialog<Wanted, SettingPreview, SettingReceipt>
      title={remove ? "Remove setting" : "Set for all brokers"}
      target={
        <>
          <b className="mono">{row.name}</b>
          <span lang="en">{row.meaning}</span>
        </>
      }
      what="setting"
      id={["setting", cluster, row.name]}
      wanted={remove ? { value: null } : text === "" ? null : { value: text }}
      form={(isDisabled, problem) =>
        !remove && (
          <ValueInput
            row={row}
            text={text}
            isDisabled={isDisabled}
            problem={text === "" ? "A value is needed" : problem}
            onChange={setText}
          />
        )
      }
      ask={({ value }) => previewSetting(cluster, row.name, value)}
      apply={(token) => applySetting(cluster, row.name, token)}
      preview={({ value }, preview) => <Preview value={value} preview={preview} />}
      receipt={({ value }, receipt) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {doneOf(row.name, value, receipt).join(" ")}
        </p>
      )}
      label={(_, preview) =>
        preview?.token === null ? "Nothing to change" : remove ? "Remove" : "Set for all brokers"
      }
      red={remove}
      commands={({ value }, { token }) =>
        token === null ? undefined : COMMANDS.changeSetting({ name: row.name }, { value })
      }
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

function ValueInput({
  row,
  text,
  isDisabled,
  problem,
  onChange,
}: {
  row: Setting;
  text: string;
  isDisabled: boolean;
  problem: string | null;
  onChange: (text: string) => void;
}) {
  const choices = row.allowed === "true or false" ? ["true", "false"] : row.choices;
  const common = {
    label: "Value",
    value: text,
    error: problem,
    disabled: isDisabled,
    "data-autofocus": true,
  };
  return choices.length > 0 ? (
    <NativeSelect {...common} data={choices} onChange={(event) => onChange(event.currentTarget.value)} />
  ) : (
    <TextInput
      {...common}
      description={allowedText(row)}
      autoComplete="off"
      spellCheck={false}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

function Preview({ value, preview }: { value: string | null; preview: SettingPreview }) {
  const { row, would_be: wouldBe } = preview;
  return (
    <>
      <p>{changeOf(value, preview)}</p>
      <dl className={styles.facts}>
        <Fact label="In force now">
          {valuesText(row.values)}
          <small>{sourceOf(row)}</small>
        </Fact>
        <Fact label="In force after the change">{valuesText(wouldBe)}</Fact>
        <Fact label="Configured at start">{valuesText(row.started)}</Fact>
        <Fact label="Default">{row.default || "empty"}</Fact>
      </dl>
      <ul className={styles.remarks}>
        {remarksOf(preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </>
  );
}
