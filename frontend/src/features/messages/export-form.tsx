import { Button, NativeSelect } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { bytes, count, plural } from "../../lib/format";
import { looks } from "../../shared/messages/looks";
import type { TopicId } from "../../shared/topic/queries";
import { CheckIcon, DownloadIcon } from "../../ui/icons";
import { Panel } from "../../ui/panel";
import { Notice } from "../../ui/states";
import { exportUrl } from "./queries";
import type { MessagesSearch } from "./search";

const FORMATS = [
  { value: "jsonl", label: "JSON lines" },
  { value: "csv", label: "CSV" },
  { value: "parquet", label: "Parquet" },
];
const LIMITS = ["1000", "10000", "100000"].map((value) => ({
  value,
  label: `at most ${count(Number(value))}`,
}));

/** A complete file of the search, which is saved only when all of it arrived. */
export function ExportForm({ id, search }: { id: TopicId; search: MessagesSearch }) {
  const [format, setFormat] = useState("jsonl");
  const [limit, setLimit] = useState("10000");
  const save = useMutation({
    mutationFn: async () => {
      const answer = await fetch(exportUrl(id, search, format, limit));
      if (!answer.ok) {
        const { reason } = (await answer.json().catch(() => ({}))) as { reason?: string };
        throw new Error(reason ?? `the gateway answered ${answer.status}`);
      }
      // A transfer that ends early is refused here, by the length that the gateway stated.
      const file = await answer.blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file);
      link.download = `${id.topic}.${format}`;
      link.click();
      URL.revokeObjectURL(link.href);
      return {
        messages: Number(answer.headers.get("X-Export-Messages")),
        scanned: Number(answer.headers.get("X-Export-Scanned")),
        stopped: answer.headers.get("X-Export-Stopped"),
        size: file.size,
      };
    },
  });
  return (
    <Panel title="Export" note="the messages of this search, also those that are not shown yet">
      <div style={looks.form}>
        <div style={looks.fields}>
          <NativeSelect
            label="Format"
            description={format === "jsonl" ? "It can be published again" : undefined}
            data={FORMATS}
            value={format}
            onChange={(event) => setFormat(event.currentTarget.value)}
          />
          <NativeSelect
            label="Messages"
            data={LIMITS}
            value={limit}
            onChange={(event) => setLimit(event.currentTarget.value)}
          />
        </div>
        <div>
          <Button
            variant="default"
            leftSection={<DownloadIcon size={14} />}
            loading={save.isPending}
            onClick={() => save.mutate()}
          >
            Export
          </Button>
        </div>
        <div aria-live="polite">
          {save.data && (
            <p role="status">
              <CheckIcon /> {plural(save.data.messages, "message")} of {count(save.data.scanned)} looked at,{" "}
              {bytes(save.data.size)}. {ENDS[save.data.stopped ?? ""]}
            </p>
          )}
          {save.error && (
            <Notice tone="error">
              <p>
                Nothing was saved: <span lang="en">{save.error.message}</span>
              </p>
            </Notice>
          )}
        </div>
      </div>
    </Panel>
  );
}

const ENDS: Record<string, string> = {
  end: "These are all.",
  limit: "There may be more.",
  bytes: "It is as large as a file may be; there may be more.",
};
