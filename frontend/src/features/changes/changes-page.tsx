import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, dateTime } from "../../lib/format";
import {
  CHANGE_SET_SORTS,
  changeSetsQuery,
  type ListedChangeSet,
  PER_PAGE,
} from "../../shared/change-sets/change-queries";
import { Badge } from "../../ui/badge";
import { Pages } from "../../ui/grid/pages";
import { Table } from "../../ui/grid/table";
import { useOrder } from "../../ui/grid/use-order";
import { Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { argumentsOf, filterOf, progressOf, stateOfSet, titleOf } from "./change-words";
import { looks } from "./looks";

const route = getRouteApi("/c/$cluster/changes");

/** The change sets of the user. */
export function ChangesPage() {
  useTitle("Changes");
  const { cluster } = route.useParams();
  const { sort, page, by, turning } = useOrder(CHANGE_SET_SORTS, "-created_at");
  const listed = useQuery({ ...changeSetsQuery(cluster, sort, page), placeholderData: keepPreviousData });
  const failure = failureOf(listed);
  return (
    <Page>
      <PageHead
        title="Changes"
        actions={
          <Link to="/c/$cluster/definitions" params={{ cluster }}>
            Definitions as a file
          </Link>
        }
      />
      {failure && (
        <ErrorNotice
          error={failure}
          title="The changes could not be listed"
          onRetry={() => listed.refetch()}
        />
      )}
      {listed.isPending && <Loading label="Loading the changes" rows={4} />}
      {listed.data && (
        <Panel
          title="Change sets"
          note={count(listed.data.total)}
          flush
          actions={<Pages {...turning} total={listed.data.total} per={PER_PAGE} />}
        >
          <Table<ListedChangeSet>
            caption="Change sets"
            rows={listed.data.rows}
            rowKey={({ id }) => id}
            empty={
              <Empty title="No change of many objects yet">
                “Change all…” on the{" "}
                <Link to="/c/$cluster/topics" params={{ cluster }} style={{ textDecoration: "underline" }}>
                  topics
                </Link>{" "}
                and on the{" "}
                <Link
                  to="/c/$cluster/subscriptions"
                  params={{ cluster }}
                  style={{ textDecoration: "underline" }}
                >
                  subscriptions
                </Link>{" "}
                previews one.
              </Empty>
            }
            columns={[
              {
                ...by("kind"),
                key: "title",
                header: "Change",
                grow: true,
                cell: (set) => (
                  <div style={looks.text}>
                    <Link to="/c/$cluster/changes/$id" params={{ cluster, id: set.id }}>
                      {titleOf(set)}
                    </Link>
                    <div style={looks.dim}>
                      {[argumentsOf(set), filterOf(set)].filter(Boolean).join(" · ")}
                    </div>
                  </div>
                ),
              },
              { ...by("state"), key: "state", header: "State", cell: (set) => <SetState set={set} /> },
              {
                key: "progress",
                header: "Objects",
                numeric: true,
                cell: (set) => `${count(progressOf(set).done)} of ${count(progressOf(set).of)}`,
              },
              {
                ...by("created_by"),
                key: "by",
                header: "By",
                wide: true,
                cell: ({ created_by }) => created_by,
              },
              {
                ...by("created_at", true),
                key: "at",
                header: "Created",
                wide: true,
                cell: ({ created_at }) => dateTime(created_at),
              },
            ]}
          />
        </Panel>
      )}
    </Page>
  );
}

function SetState({ set }: { set: ListedChangeSet }) {
  const { word, tone } = stateOfSet(set);
  return <Badge tone={tone}>{word}</Badge>;
}
