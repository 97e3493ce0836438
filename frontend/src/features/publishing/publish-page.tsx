import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { failureOf } from "../../lib/errors";
import { looks } from "../../shared/messages/looks";
import { useTopicId } from "../../shared/topic/use-topic";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { LinesForm } from "./lines-form";
import { MessageForm } from "./message-form";
import { draftOf, EMPTY } from "./publish";
import { storedQuery } from "./queries";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/publish");
const KINDS = [
  { value: "one", label: "One message" },
  { value: "lines", label: "Lines of JSON" },
];

/** Publishes to the topic: one message, perhaps a stored one again, or several as lines of JSON. */
export function PublishPage() {
  const id = useTopicId();
  const { from } = route.useSearch();
  const [kind, setKind] = useState("one");
  const stored = useQuery({ ...storedQuery(id, from ?? ""), enabled: from !== undefined });
  if (from !== undefined) {
    const failure = failureOf(stored);
    if (failure)
      return (
        <ErrorNotice
          error={failure}
          title={`Message ${from} could not be read`}
          onRetry={failure.status === 403 ? undefined : () => stored.refetch()}
        />
      );
    if (!stored.data) return <Loading label="Reading the message" rows={6} />;
    const { message, base64, problem } = stored.data;
    if (problem !== null) return <Empty title={`Message ${from} cannot be sent again`}>{problem}</Empty>;
    return (
      <MessageForm
        key={from}
        title={`Edit message ${from} and send it again`}
        first={draftOf(message, base64)}
        firstSchema={message.value.schema_version ?? -1}
      />
    );
  }
  return (
    <>
      <div role="group" aria-label="Messages to publish" style={looks.choices}>
        {KINDS.map(({ value, label }) => (
          <Button
            key={value}
            variant={value === kind ? "filled" : "default"}
            aria-pressed={value === kind}
            onClick={() => setKind(value)}
          >
            {label}
          </Button>
        ))}
      </div>
      {kind === "one" ? (
        <MessageForm title="Publish a message" first={EMPTY} firstSchema={null} />
      ) : (
        <LinesForm />
      )}
    </>
  );
}
