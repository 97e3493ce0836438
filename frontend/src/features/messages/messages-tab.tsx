import { Button, Checkbox, NativeSelect, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { asApiError } from "../../lib/errors";
import { bytes, count, plural, tenths } from "../../lib/format";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";
import { CommandLines } from "../../shared/commands/command-lines";
import { useIsApache, useLacks } from "../../shared/lacking/lacking";
import { looks } from "../../shared/messages/looks";
import { useTopic, useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { ConditionFields, conditionsOf } from "./conditions";
import { ExportForm } from "./export-form";
import { latestRows, latestText } from "./latest";
import { MessageTable } from "./message-table";
import { type MessagesPage, messagesQuery, searchCommand } from "./queries";
import { BEGINNINGS, type Beginning, beginningOf, isFiltered, type MessagesSearch } from "./search";
import { stoppedText } from "./words";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/messages");

/** Height of the table of keys, px: beyond it only the rows in view are in the document. */
const KEYS_HEIGHT = 640;

/** Stored messages of the topic, from any place on. Reading moves no subscription. */
export function MessagesTab() {
  const id = useTopicId();
  const search = route.useSearch();
  const list = useInfiniteQuery({ ...messagesQuery(id, search), enabled: id.domain === "persistent" });
  if (id.domain !== "persistent")
    return (
      <Empty title="Nothing is stored">
        The topic is non-persistent. <PublishLink />
      </Empty>
    );
  const pages = list.data?.pages ?? [];
  const last = pages.at(-1);
  const isLatest = search.compacted !== undefined;
  const messages = isLatest ? latestRows(pages) : pages.flatMap(({ rows }) => rows);
  const missing = last?.missing ?? [];
  return (
    <>
      <SearchForm key={JSON.stringify(search)} search={search} onAgain={() => list.refetch()} />
      {list.error && (
        <ErrorNotice
          error={list.error}
          title={messages.length > 0 ? "No further messages could be read" : "Messages could not be read"}
          onRetry={
            asApiError(list.error).status === 403
              ? undefined
              : // A compaction between two pages refuses the next: it begins again.
                () => (last && asApiError(list.error).status !== 409 ? list.fetchNextPage() : list.refetch())
          }
        />
      )}
      {missing.length > 0 && (
        <Notice tone="warning">
          <p>
            {plural(missing.length, "partition")} did not answer: {missing.join(", ")}. Their messages are not
            among these; they follow when you go on.
          </p>
        </Notice>
      )}
      {list.isPending && <Loading label="Reading messages" rows={8} />}
      {last && (
        <Panel
          title={isLatest ? "Latest value per key" : "Messages"}
          note={last.direction === "backward" ? "newest first" : "oldest first"}
          flush
        >
          {messages.length > 0 ? (
            <MessageTable
              messages={messages}
              hasPartitions={last.partitions > 0}
              maxHeight={isLatest ? KEYS_HEIGHT : undefined}
            />
          ) : (
            <Empty title={isFiltered(search) ? "No message matches so far" : "No message here"} />
          )}
          <div style={looks.foot}>
            <p role="status">{isLatest ? latestText(pages) : scannedText(pages)}</p>
            <Button variant="default" loading={list.isFetching} onClick={() => list.fetchNextPage()}>
              {last.stopped === "end"
                ? last.direction === "forward"
                  ? "Look for newer ones"
                  : "Look again"
                : isLatest || isFiltered(search) || last.stopped !== "limit"
                  ? "Go on"
                  : "More"}
            </Button>
          </div>
        </Panel>
      )}
      {last && <ExportForm key={JSON.stringify(search)} id={id} search={search} />}
    </>
  );
}

/** The progress over all pages, and the reason of the end of the last one. */
function scannedText(pages: MessagesPage[]): string {
  const sum = (value: (page: MessagesPage) => number) =>
    pages.reduce((total, page) => total + value(page), 0);
  const shown = sum(({ rows }) => rows.length);
  const scanned = sum((page) => page.scanned);
  const seconds = sum((page) => page.took_ms) / 1000;
  const last = pages.at(-1);
  return (
    `${plural(shown, "message")} shown of ${count(scanned)} looked at, ` +
    `${bytes(sum((page) => page.bytes))} in ${tenths(seconds)} s. ` +
    (last ? stoppedText(last) : "")
  );
}

function CopyLink() {
  const { cluster, domain, tenant, namespace, topic } = useTopicId();
  return (
    <Link
      to="/c/$cluster/copies"
      params={{ cluster }}
      search={{ from: `${domain}://${tenant}/${namespace}/${topic}` }}
    >
      Copy or move
    </Link>
  );
}

function TailLink() {
  const id = useTopicId();
  return (
    <Link to="/c/$cluster/t/$tenant/$namespace/$topic/tail" params={id} search={topicSearchOf(id)}>
      Live tail
    </Link>
  );
}

function PublishLink() {
  const id = useTopicId();
  return (
    <Link to="/c/$cluster/t/$tenant/$namespace/$topic/publish" params={id} search={topicSearchOf(id)}>
      Publish
    </Link>
  );
}

function SearchForm({ search, onAgain }: { search: MessagesSearch; onAgain: () => void }) {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const lacks = useLacks();
  const isApache = useIsApache();
  const navigate = useNavigate({ from: "/c/$cluster/t/$tenant/$namespace/$topic/messages" });
  const [beginning, setBeginning] = useState<Beginning>(beginningOf(search));
  const [isLatest, setIsLatest] = useState(search.compacted !== undefined);
  const subscriptions = topic?.subscriptions.map(({ name }) => name) ?? [];

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const field = (name: string) => String(form.get(name) ?? "").trim() || undefined;
    const at = fromLocalInput(field("time") ?? "");
    const from = isLatest ? "latest" : beginning;
    const next: MessagesSearch = {
      start: from === "earliest" ? "earliest" : undefined,
      time: from === "time" && at !== null ? String(at) : undefined,
      position: from === "position" ? field("position") : undefined,
      subscription: from === "subscription" ? field("subscription") : undefined,
      direction: field("direction") === "backward" ? "backward" : undefined,
      compacted: isLatest ? "true" : undefined,
      ...conditionsOf(form),
    };
    if (JSON.stringify(next) === JSON.stringify(search)) onAgain();
    else void navigate({ search: (before) => ({ ...before, ...next }) });
  }

  return (
    <Panel
      title="Read messages"
      note={
        isApache
          ? "No subscription is moved or created. Apache's REST interface returns one message or batch for a request."
          : "No subscription is moved or created."
      }
      actions={
        <>
          {!lacks.copies && <CopyLink />}
          <TailLink />
          <PublishLink />
        </>
      }
    >
      <form style={looks.form} onSubmit={submit}>
        {!isApache && (
          <Checkbox
            label="Latest value per key"
            description="The topic as its compaction leaves it, then what was published since: one row for each key, none for a key whose last value is empty."
            checked={isLatest}
            onChange={(event) => setIsLatest(event.currentTarget.checked)}
          />
        )}
        {!isLatest && (
          <div style={looks.fields}>
            <NativeSelect
              label="Begin at"
              data={[...BEGINNINGS]}
              value={beginning}
              onChange={(event) => setBeginning(event.currentTarget.value as Beginning)}
            />
            {beginning === "time" && (
              <TextInput
                label="Published at or after"
                name="time"
                type="datetime-local"
                step={1}
                required
                defaultValue={toLocalInput(search.time ? Number(search.time) : Date.now() - 3_600_000)}
              />
            )}
            {beginning === "position" && (
              <TextInput
                label="Position, such as 12:345"
                name="position"
                required
                pattern="\d+:\d+(:\d+)?"
                defaultValue={search.position ?? ""}
              />
            )}
            {beginning === "subscription" && (
              <NativeSelect
                label="Subscription"
                name="subscription"
                required
                data={
                  search.subscription ? [...new Set([search.subscription, ...subscriptions])] : subscriptions
                }
                defaultValue={search.subscription}
              />
            )}
            {["time", "position"].includes(beginning) && (
              <NativeSelect
                label="Direction"
                name="direction"
                data={[
                  { value: "forward", label: "to newer ones" },
                  { value: "backward", label: "to older ones" },
                ]}
                defaultValue={search.direction ?? "forward"}
              />
            )}
          </div>
        )}
        <details open={isFiltered(search)}>
          <summary style={looks.summary}>Conditions</summary>
          <ConditionFields search={search} />
        </details>
        <div>
          <Button type="submit">Read</Button>
        </div>
        <CommandLines of={searchCommand(id, search)} />
      </form>
    </Panel>
  );
}
