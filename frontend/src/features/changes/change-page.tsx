import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, dateTime, plural } from "../../lib/format";
import {
  type ChangeItem,
  type ChangeSet,
  changeItemsQuery,
  changeSetQuery,
  confirmChangeSet,
  ITEM_SORTS,
  type ItemState,
  isWorking,
  PER_PAGE,
  retryChangeSet,
  stopChangeSet,
} from "../../shared/change-sets/change-queries";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { Badge } from "../../ui/badge";
import { Fact } from "../../ui/fact";
import { FilterInput } from "../../ui/filter-input";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Crumb, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import {
  argumentsOf,
  effectOf,
  filterOf,
  ITEM_STATES,
  isLosing,
  lossesOf,
  progressOf,
  stateOfItem,
  stateOfSet,
  titleOf,
} from "./change-words";
import { looks } from "./looks";

const route = getRouteApi("/c/$cluster/changes/$id");

/** The page of a change set: its effect, confirmation and progress, and the outcome of each object. */
export function ChangePage() {
  const { cluster, id } = route.useParams();
  const found = useQuery(changeSetQuery(cluster, id));
  const set = found.data;
  useTitle(set ? titleOf(set) : "Change");
  const failure = failureOf(found);
  return (
    <Page>
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/changes" params={{ cluster }}>
              Changes
            </Link>
          </Crumb>
        }
        title={set ? titleOf(set) : "Change"}
        badges={set && <Badge tone={stateOfSet(set).tone}>{stateOfSet(set).word}</Badge>}
      />
      {failure && (
        <ErrorNotice error={failure} title="The change could not be read" onRetry={() => found.refetch()} />
      )}
      {found.isPending && <Loading label="Loading the change" rows={4} />}
      {set && (
        <>
          <Summary set={set} />
          <Items set={set} />
        </>
      )}
    </Page>
  );
}

function Summary({ set }: { set: ChangeSet }) {
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (work: (set: ChangeSet) => Promise<ChangeSet>) => work(set),
    onSuccess: (after) => client.setQueryData(changeSetQuery(set.cluster, set.id).queryKey, after),
    onSettled: () => client.invalidateQueries({ queryKey: ["change-set", set.cluster, set.id] }),
  });
  const { counts, state } = set;
  const { done, of } = progressOf(set);
  const again = counts.refused + counts.failed + counts.unknown;
  const canConfirm = (state === "planned" || state === "stopped") && counts.planned > 0;
  const canStop = isWorking(set) || (state === "planned" && set.confirmed_at === null);
  const button = (label: string, work: (set: ChangeSet) => Promise<ChangeSet>, color?: string) => (
    <Button
      variant={color ? "filled" : "default"}
      {...(color ? { color } : {})}
      loading={act.isPending && act.variables === work}
      onClick={() => act.mutate(work)}
    >
      {label}
    </Button>
  );
  return (
    <Panel title="Change">
      <div style={looks.body}>
        <dl style={{ ...looks.row, margin: 0, gap: "8px 28px" }}>
          {argumentsOf(set) && <Fact label="To">{argumentsOf(set)}</Fact>}
          <Fact label="Chosen by">{filterOf(set)}</Fact>
          <Fact label="By">{set.created_by}</Fact>
          <Fact label="Created">{dateTime(set.created_at)}</Fact>
          {set.confirmed_at !== null && <Fact label="Confirmed">{dateTime(set.confirmed_at)}</Fact>}
        </dl>
        {state !== "cancelled" && (
          <div>
            <progress
              style={looks.bar}
              max={Math.max(of, 1)}
              value={done}
              aria-label={state === "planning" ? "Previewed" : "Changed"}
            />
            <div style={looks.dim} role="status">
              {count(done)} of {count(of)} {state === "planning" ? "previewed" : "changed"}
              {counts.refused > 0 && ` · ${count(counts.refused)} cannot be changed`}
              {counts.failed > 0 && ` · ${count(counts.failed)} failed`}
              {counts.unknown > 0 && ` · ${count(counts.unknown)} not known`}
            </div>
          </div>
        )}
        {(state === "planned" || state === "stopped") && <Effects set={set} />}
        {act.error && <ChangeFailure error={act.error} title="The change was not made" />}
        <div style={looks.row}>
          {canConfirm &&
            button(
              `${titleOf(set, counts.planned)}${state === "stopped" ? ", the rest" : ""}`,
              confirmChangeSet,
              isLosing(set) ? "red" : "pulse",
            )}
          {canStop && button(state === "running" ? "Stop" : "Cancel", stopChangeSet)}
          {!isWorking(set) &&
            state !== "cancelled" &&
            again > 0 &&
            button(`Preview ${plural(again, "object")} again`, retryChangeSet)}
          <Link to="/audit" search={{ q: set.id }}>
            In the audit log
          </Link>
        </div>
      </div>
    </Panel>
  );
}

function Effects({ set }: { set: ChangeSet }) {
  const losses = lossesOf(set);
  const { totals, counts } = set;
  return (
    <Notice tone={losses.length > 0 ? "error" : "info"}>
      <p>
        {losses.length > 0 ? `${losses.join("; ")}.` : "No message is lost."}{" "}
        {totals.clients > 0 && `${plural(totals.clients, "client")} connected. `}
        {totals.again > 0 && `${plural(totals.again, "message")} delivered again. `}
        Exactly these {plural(counts.planned, "object")} are changed, each only if it still is as shown here.
      </p>
    </Notice>
  );
}

function Items({ set }: { set: ChangeSet }) {
  const { q, state: wanted } = route.useSearch();
  const { sort, page, show, by, turning } = useOrder(ITEM_SORTS, "place");
  const state = ITEM_STATES.find((known) => known === wanted);
  const at = isWorking(set) ? String(progressOf(set).done) : `${set.state} ${set.digest}`;
  const found = useQuery({
    ...changeItemsQuery(set.cluster, set.id, { q, state, sort, page, at }),
    placeholderData: keepPreviousData,
  });
  const failure = failureOf(found);
  return (
    <Panel
      title="Objects"
      note={count(found.data?.total ?? set.total)}
      flush
      actions={
        <>
          <FilterInput
            label="Part of the name"
            value={q ?? ""}
            write={(value, replace) => show({ q: value || undefined }, replace)}
          />
          <NativeSelect
            aria-label="State"
            size="xs"
            value={state ?? ""}
            data={[
              { value: "", label: `All (${count(set.total)})` },
              ...ITEM_STATES.filter((known) => set.counts[known] > 0 || known === state).map((known) => ({
                value: known,
                label: `${stateOfItem(known).word} (${count(set.counts[known])})`,
              })),
            ]}
            onChange={(event) => show({ state: event.currentTarget.value || undefined })}
          />
          <Pages {...turning} total={found.data?.total} per={PER_PAGE} />
        </>
      }
    >
      {failure && <ErrorNotice error={failure} title="The objects could not be read" />}
      <Table<ChangeItem>
        caption="Objects of the change"
        rows={found.data?.rows ?? []}
        rowKey={({ topic, subscription }) => `${topic} ${subscription}`}
        empty={found.isPending ? <Loading label="Loading the objects" /> : <Empty title="No object" />}
        columns={[
          {
            ...by("topic"),
            key: "name",
            header: { topics: "Topic", subscriptions: "Subscription", definitions: "Object" }[set.of],
            grow: true,
            cell: ({ topic, subscription, reason, effect }) => (
              <div style={looks.text}>
                {subscription && <b>{subscription}</b>}
                {subscription && " of "}
                {topic.replace("persistent://", "")}
                <div style={looks.dim}>
                  {reason ? <span lang="en">{reason}</span> : effectOf({ effect }, set.of === "definitions")}
                </div>
              </div>
            ),
          },
          { ...by("state"), key: "state", header: "State", cell: ({ state }) => <ItemBadge state={state} /> },
        ]}
      />
    </Panel>
  );
}

function ItemBadge({ state }: { state: ItemState }) {
  const { word, tone } = stateOfItem(state);
  return <Badge tone={tone}>{word}</Badge>;
}
