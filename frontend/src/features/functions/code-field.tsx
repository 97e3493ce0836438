import { Button, Textarea } from "@mantine/core";
import { useRef, useState } from "react";
import { bytesToBase64, type Code } from "./model/deployment-form";

const BYTES_MAX = 500_000;

/** The code: written here, or a file of this computer. */
export function CodeField({ value, onChange }: { value: Code; onChange: (code: Code) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<string>();
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    if (file.size > BYTES_MAX) {
      setProblem(`${file.name} is larger than ${BYTES_MAX / 1000} kB: deploy it with pulsar-admin.`);
      return;
    }
    setProblem(undefined);
    const bytes = new Uint8Array(await file.arrayBuffer());
    onChange({ ...value, file: { name: file.name, base64: bytesToBase64(bytes) } });
  };
  return (
    <div style={{ display: "grid", gap: 8 }}>
      {value.file ? (
        <p style={{ margin: 0 }}>
          Code: <b>{value.file.name}</b>
        </p>
      ) : (
        <Textarea
          label="Code"
          description="A module of Python, whose class is named above"
          autosize
          minRows={8}
          maxRows={28}
          spellCheck={false}
          classNames={{ input: "mono" }}
          value={value.text}
          onChange={(event) => onChange({ ...value, text: event.currentTarget.value })}
        />
      )}
      <div style={{ display: "flex", flexWrap: "wrap", gap: 8 }}>
        <Button variant="default" onClick={() => input.current?.click()}>
          Upload a file …
        </Button>
        {value.file && (
          <Button variant="subtle" onClick={() => onChange({ ...value, file: null })}>
            Write it here
          </Button>
        )}
        <input
          ref={input}
          type="file"
          accept=".py,.whl,.zip"
          aria-label="File with the code"
          hidden
          onChange={(event) => void take(event.currentTarget.files?.[0])}
        />
      </div>
      {problem && <p role="alert">{problem}</p>}
    </div>
  );
}
