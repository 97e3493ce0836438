import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { Code } from "../../ui/code/code";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { type FunctionPlace, logQuery } from "./model/function-queries";

const LINES = ["50", "200", "1000"];

/** The logs of the instances, read again every two seconds while they are shown. */
export function Logs({ place }: { place: FunctionPlace }) {
  const [isOpen, setOpen] = useState(false);
  const [lines, setLines] = useState("200");
  return (
    <Panel
      title="Logs"
      note={isOpen ? "live" : undefined}
      actions={
        <>
          {isOpen && (
            <NativeSelect
              aria-label="Lines"
              size="xs"
              value={lines}
              data={LINES.map((value) => ({ value, label: `The last ${value} lines` }))}
              onChange={(event) => setLines(event.currentTarget.value)}
            />
          )}
          <Button variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Hide" : "Show"}
          </Button>
        </>
      }
    >
      {isOpen ? (
        <Shown place={place} lines={Number(lines)} />
      ) : (
        <p style={{ margin: 0 }}>Output and log lines of the instances that run.</p>
      )}
    </Panel>
  );
}

function Shown({ place, lines }: { place: FunctionPlace; lines: number }) {
  const found = useQuery(logQuery(place, lines));
  if (found.data === undefined)
    return failureOf(found) ? (
      <ErrorNotice error={found.error} title="The logs could not be read" onRetry={() => found.refetch()} />
    ) : (
      <Loading label="Loading the logs" rows={4} />
    );
  if (found.data.logs.length === 0)
    return <Empty title="No instance runs">A log is kept while its instance runs.</Empty>;
  return (
    <>
      {found.data.logs.map(({ instance, text }) => (
        <div key={instance}>
          <h3>{`Instance ${instance}`}</h3>
          <Code label={`Log of instance ${instance}`}>{text || "empty"}</Code>
        </div>
      ))}
    </>
  );
}
