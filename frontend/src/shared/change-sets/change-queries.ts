import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];
export type ChangeSet = Schemas["ChangeSetDetail"];
export type ListedChangeSet = Schemas["ChangeSetShape"];
export type ChangeItem = Schemas["ChangeItemShape"];
export type ChangeKind = Schemas["ChangeKindEnum"];
export type ItemState = Schemas["ChangeItemStateEnum"];
export type NewChangeSet = Schemas["NewChangeSetRequest"];

export const PER_PAGE = 50;
const WORKING_MS = 700;
const RESTING_MS = 5_000;
const SETS = "/api/v1/clusters/{cluster}/changes";

export function isWorking({ state }: Pick<ListedChangeSet, "state">): boolean {
  return state === "planning" || state === "running";
}

export const CHANGE_SET_SORTS = ["kind", "state", "created_by", "created_at"] as const;
export type ChangeSetSort = Sort<(typeof CHANGE_SET_SORTS)[number]>;
export const ITEM_SORTS = ["place", "topic", "state"] as const;
export type ItemSort = Sort<(typeof ITEM_SORTS)[number]>;

export function changeSetsQuery(cluster: string, sort: ChangeSetSort, page: number) {
  return queryOptions({
    queryKey: ["change-sets", cluster, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(SETS, {
          params: {
            path: { cluster },
            query: { sort, ...rowsOf(page, PER_PAGE) },
          },
          signal,
        }),
      ),
    refetchInterval: RESTING_MS,
  });
}

export function changeSetQuery(cluster: string, id: string) {
  return queryOptions({
    queryKey: ["change-set", cluster, id],
    queryFn: ({ signal }) =>
      answerOf(api.GET(`${SETS}/{set_id}`, { params: { path: { cluster, set_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && !isWorking(state.data) ? RESTING_MS : WORKING_MS),
  });
}

/** A page of the objects of a set; `at` is what the set is at, whose objects are read again as they change. */
export function changeItemsQuery(
  cluster: string,
  id: string,
  filter: {
    q: string | undefined;
    state: ItemState | undefined;
    sort: ItemSort;
    page: number;
    at: string;
  },
) {
  const { q, state, sort, page } = filter;
  return queryOptions({
    queryKey: ["change-set", cluster, id, "items", filter],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET(`${SETS}/{set_id}/items`, {
          params: {
            path: { cluster, set_id: id },
            query: given({ q, state, sort, ...rowsOf(page, PER_PAGE) }),
          },
          signal,
        }),
      ),
    gcTime: 10_000,
  });
}

export function createChangeSet(cluster: string, body: NewChangeSet): Promise<ChangeSet> {
  return answerOf(api.POST(SETS, { params: { path: { cluster } }, body }));
}

export function confirmChangeSet({ cluster, id, digest }: ChangeSet): Promise<ChangeSet> {
  const path = { cluster, set_id: id };
  return answerOf(api.POST(`${SETS}/{set_id}/confirm`, { params: { path }, body: { digest } }));
}

export function stopChangeSet({ cluster, id }: ChangeSet): Promise<ChangeSet> {
  return answerOf(api.POST(`${SETS}/{set_id}/stop`, { params: { path: { cluster, set_id: id } } }));
}

export function retryChangeSet({ cluster, id }: ChangeSet): Promise<ChangeSet> {
  return answerOf(api.POST(`${SETS}/{set_id}/retry`, { params: { path: { cluster, set_id: id } } }));
}
