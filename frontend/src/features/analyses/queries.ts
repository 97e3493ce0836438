import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import { pageCluster } from "../../api/page-cluster";
import type { components } from "../../api/schema";
import type { Run, RunPage, SparkSetup } from "../../api/types";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];
export type Estimate = Schemas["EstimateShape"];
export type Schedule = Schemas["ScheduleShape"];
export type Figure = Schemas["FigureShape"];
export type Comparison = Omit<Schemas["ComparisonShape"], "runs"> & { runs: Run[] };
/** The times of a schedule: a cron expression, or every so many hours. */
export type Times = { cron: string } | { every_hours: number };

const INSTALLING_MS = 1_000;
const ELSE_MS = 15_000;

/** The installation of Spark, which the first analysis needs. */
export const sparkQuery = queryOptions({
  queryKey: ["spark"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/spark", { signal })),
  refetchInterval: ({ state }) => {
    const now = state.data?.state;
    if (now === "installed" && state.data?.problems.length === 0) return false;
    return now === "installing" ? INSTALLING_MS : ELSE_MS;
  },
  retry: false,
});

export function installSpark(): Promise<SparkSetup> {
  return answerOf(api.POST("/api/v1/spark", {}));
}

export const RUNS_PER_PAGE = 50;

export const RUN_SORTS = ["created_at", "title", "target", "state"] as const;
export type RunSort = Sort<(typeof RUN_SORTS)[number]>;

export function runsQuery(filter: {
  target?: string | undefined;
  analysis?: string | undefined;
  state?: Run["state"] | undefined;
  sort: RunSort;
  page: number;
}) {
  const { target, analysis, state, sort, page } = filter;
  return queryOptions({
    queryKey: ["runs", filter],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/runs", {
          params: {
            query: given({
              cluster: pageCluster,
              target,
              analysis,
              state,
              sort,
              ...rowsOf(page, RUNS_PER_PAGE),
            }),
          },
          signal,
        }),
      ) as Promise<RunPage>,
    refetchInterval: 5_000,
  });
}

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } }, signal }),
      ) as Promise<Run>,
  });
}

const SUGGESTED = 20;

/** Full names of persistent topics that hold `text`, those with the largest backlog first. */
export function topicNamesQuery(cluster: string, text: string) {
  return queryOptions({
    queryKey: ["topics", { cluster }, "names", text],
    queryFn: async ({ signal }) => {
      const page = await answerOf(
        api.GET("/api/v1/clusters/{cluster}/topics", {
          params: {
            path: { cluster },
            query: given({
              q: text,
              domain: "persistent" as const,
              sort: "-backlog",
              offset: 0,
              limit: SUGGESTED,
            }),
          },
          signal,
        }),
      );
      return page.rows.map((row) => row.name);
    },
    gcTime: 30_000,
  });
}

/** Tenants, and namespaces as tenant/namespace, that hold `text`. */
export function scopeNamesQuery(cluster: string, text: string) {
  return queryOptions({
    queryKey: ["topics", { cluster }, "scope names", text],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/clusters/{cluster}/scopes", {
          params: { path: { cluster }, query: given({ q: text, limit: SUGGESTED }) },
          signal,
        }),
      ),
    gcTime: 30_000,
  });
}

/** Start a run; `rerunOf` is the id of the run that it repeats. */
export function startRun(analysis: string, parameters: Record<string, unknown>, rerunOf = ""): Promise<Run> {
  const query = given({ cluster: pageCluster });
  const body = { analysis, parameters, ...(rerunOf ? { rerun_of: rerunOf } : {}) };
  return answerOf(api.POST("/api/v1/runs", { params: { query }, body })) as Promise<Run>;
}

export function cancelRun(id: string): Promise<Run> {
  return answerOf(
    api.POST("/api/v1/runs/{run_id}/cancel", { params: { path: { run_id: id } } }),
  ) as Promise<Run>;
}

/** The amounts that a run with these parameters would read, and its time by earlier runs. */
export function estimateQuery(analysis: string, parameters: Record<string, unknown>) {
  return queryOptions({
    queryKey: ["estimate", analysis, pageCluster, parameters],
    queryFn: ({ signal }) =>
      answerOf(
        api.POST("/api/v1/analyses/{analysis}/estimate", {
          params: { path: { analysis }, query: given({ cluster: pageCluster }) },
          body: { parameters },
          signal,
        }),
      ) as Promise<Estimate>,
    staleTime: 30_000,
    retry: false,
  });
}

export function compareQuery(id: string, other: string) {
  const path = { run_id: id, other };
  return queryOptions({
    queryKey: ["run", id, "compared", other],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/runs/{run_id}/compare/{other}", { params: { path }, signal }),
      ) as unknown as Promise<Comparison>,
  });
}

export function runLogQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id, "log"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/runs/{run_id}/log", { params: { path: { run_id: id } }, signal })),
  });
}

export function pinRun(id: string, isPinned: boolean): Promise<Run> {
  const params = { path: { run_id: id } };
  const PIN = "/api/v1/runs/{run_id}/pin";
  return answerOf(isPinned ? api.PUT(PIN, { params }) : api.DELETE(PIN, { params })) as Promise<Run>;
}

export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: ({ signal }) =>
    answerOf(api.GET("/api/v1/schedules", { params: { query: given({ cluster: pageCluster }) }, signal })),
});

export function createSchedule(analysis: string, parameters: Record<string, unknown>, times: Times) {
  const params = { query: given({ cluster: pageCluster }) };
  const body = { analysis, parameters, cron: "", every_hours: null, ...times };
  return answerOf(api.POST("/api/v1/schedules", { params, body })) as Promise<Schedule>;
}

export function deleteSchedule(id: string) {
  return answerOf(api.DELETE("/api/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } } }));
}
