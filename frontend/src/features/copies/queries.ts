import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { TopicRef } from "../../shared/topic-link";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];
export type Copy = Schemas["CopyRow"];
export type CopyPreview = Schemas["CopyPreview"];
export type CopyBody = Omit<Schemas["CopyBodyRequest"], "preview" | "token">;
export type LetterTopic = Schemas["DeadLetterTopic"];
export type Group = Schemas["DeadLetterGroup"];
/** The conditions that all letters of a group meet. */
export type GroupKey = Pick<Group, "origin" | "subscription" | "reason" | "shape">;
export type UndoPreview = Schemas["UndoCopyPreview"];
export type Topic = TopicRef & { cluster: string };
export const RATE = 1_000;

export const COPY_SORTS = ["created_at", "source", "target", "mode", "state"] as const;
export const COPY_STATES = ["queued", "running", "stopped", "succeeded", "failed"] as const;
export const LETTER_SORTS = ["name", "backlog", "msg_rate_in"] as const;
export type LetterSort = Sort<(typeof LETTER_SORTS)[number]>;
export interface CopyFilter {
  source: string | undefined;
  state: Copy["state"] | undefined;
  sort: Sort<(typeof COPY_SORTS)[number]>;
  page: number;
}

export const PER_PAGE = 50;
const WORKING_MS = 1_000;
const RESTING_MS = 5_000;
const BASE = "/api/v1/clusters/{cluster}";
const OF_TOPIC = `${BASE}/topics/{domain}/{tenant}/{namespace}/{topic}` as const;

const pathOf = ({ domain, ...rest }: Topic) => ({
  ...rest,
  domain: domain === "persistent" ? ("persistent" as const) : ("non-persistent" as const),
});

export const isOver = ({ state }: Copy) => state !== "queued" && state !== "running";

export const lettersQuery = (cluster: string, q: string | undefined, sort: LetterSort, page: number) =>
  queryOptions({
    queryKey: ["dead letters", cluster, q, sort, page],
    queryFn: ({ signal }) => {
      const params = { path: { cluster }, query: given({ q, sort, ...rowsOf(page, PER_PAGE) }) };
      return answerOf(api.GET(`${BASE}/dead-letters`, { params, signal }));
    },
    refetchInterval: RESTING_MS,
  });

export const groupsQuery = (topic: Topic) =>
  infiniteQueryOptions({
    queryKey: ["dead letters of", topic],
    queryFn: ({ signal, pageParam }) => {
      const params = { path: pathOf(topic), query: given({ after: pageParam || undefined }) };
      return answerOf(api.GET(`${OF_TOPIC}/dead-letters`, { params, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.after,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const copiesQuery = (cluster: string, { page, ...filter }: CopyFilter) =>
  queryOptions({
    queryKey: ["copies", cluster, filter, page],
    queryFn: ({ signal }) => {
      const params = { path: { cluster }, query: given({ ...filter, ...rowsOf(page, PER_PAGE) }) };
      return answerOf(api.GET(`${BASE}/copies`, { params, signal }));
    },
    refetchInterval: ({ state }) => (state.data?.rows.every(isOver) === false ? WORKING_MS : RESTING_MS),
  });

export const previewCopy = async (topic: Topic, body: CopyBody) =>
  (await answerOf(
    api.POST(`${OF_TOPIC}/copies`, { params: { path: pathOf(topic) }, body: { ...body, preview: true } }),
  )) as CopyPreview;

export const startCopy = async (topic: Topic, token: string) =>
  (await answerOf(
    api.POST(`${OF_TOPIC}/copies`, {
      params: { path: pathOf(topic) },
      body: { token, preview: false, rate: RATE },
    }),
  )) as Copy;

const at = (cluster: string, copy_id: string) => ({ params: { path: { cluster, copy_id } } });

export const stopCopy = (cluster: string, id: string) =>
  answerOf(api.POST(`${BASE}/copies/{copy_id}/stop`, at(cluster, id)));

export const resumeCopy = (cluster: string, id: string) =>
  answerOf(api.POST(`${BASE}/copies/{copy_id}/resume`, { ...at(cluster, id), body: {} }));

export const previewUndo = async (cluster: string, id: string) =>
  (await answerOf(
    api.POST(`${BASE}/copies/{copy_id}/undo`, { ...at(cluster, id), body: { preview: true } }),
  )) as UndoPreview;

export const undoCopy = async (cluster: string, id: string, token: string) =>
  (await answerOf(
    api.POST(`${BASE}/copies/{copy_id}/undo`, { ...at(cluster, id), body: { token, preview: false } }),
  )) as Copy;
