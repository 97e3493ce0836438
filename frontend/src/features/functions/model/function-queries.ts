import { queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, longCalls } from "../../../api/client";
import type { components } from "../../../api/schema";
import type { Params } from "../../../api/socket";
import type { JsonSchema } from "../../../api/types";
import { type ListSource, PAGE_ROWS } from "../../../shared/lists/use-list-window";

type Schemas = components["schemas"];
export type FunctionRow = Schemas["FunctionRow"];
export type FunctionsAnswer = Schemas["FunctionsAnswer"];
export type FunctionAnswer = Schemas["FunctionAnswer"];
export type InstanceRow = Schemas["InstanceRow"];
export type Component = FunctionRow["component"];
export type RunPreview = Schemas["RunFunctionPreview"];
export type RunReceipt = Schemas["RunFunctionReceipt"];
export type DeletePreview = Schemas["DeleteFunctionPreview"];
export type DeleteReceipt = Schemas["DeleteFunctionReceipt"];
export type DeployPreview = Schemas["DeployFunctionPreview"];
export type DeployReceipt = Schemas["DeployFunctionReceipt"];

export type FunctionTrial = Schemas["FunctionTrial"];
export type TriedMessage = Schemas["TriedMessage"];

export interface ConnectorEnd {
  settings: JsonSchema;
  promise: string;
  condition: string;
  several: boolean;
}
export interface Connector {
  name: string;
  description: string;
  as_source: ConnectorEnd | null;
  as_sink: ConnectorEnd | null;
}

export interface FunctionPlace {
  cluster: string;
  component: Component;
  tenant: string;
  namespace: string;
  name: string;
}

/** A start, stop or restart: of all instances, unless one is named. */
export interface Run {
  verb: "start" | "stop" | "restart";
  instance?: number | null;
}

export interface Deployment {
  config: Record<string, unknown>;
  code?: string;
  file_name?: string;
  url?: string;
}

const REFRESH_MS = 5_000;
const LOG_MS = 2_000;
const ONE = "/api/v1/clusters/{cluster}/functions/{component}/{tenant}/{namespace}/{name}";

export interface FunctionFilter extends Params {
  cluster: string;
  q?: string | undefined;
  component?: Component | undefined;
  sort?: string | undefined;
}

export const FUNCTION_LIST: ListSource<FunctionFilter, FunctionsAnswer> = {
  channel: "functions",
  key: (filter, offset) => ["functions", filter, offset],
  read: ({ cluster, ...rest }, offset, signal) =>
    answerOf(
      api.GET("/api/v1/clusters/{cluster}/functions", {
        params: { path: { cluster }, query: given({ ...rest, offset, limit: PAGE_ROWS }) },
        signal,
      }),
    ),
};

export function functionQuery(path: FunctionPlace) {
  return queryOptions({
    queryKey: ["function", path],
    queryFn: ({ signal }) => answerOf(api.GET(ONE, { params: { path }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

export function logQuery(path: FunctionPlace, lines: number) {
  return queryOptions({
    queryKey: ["function log", path, lines],
    queryFn: ({ signal }) => answerOf(api.GET(`${ONE}/log`, { params: { path, query: { lines } }, signal })),
    refetchInterval: LOG_MS,
  });
}

/** The deployed code, read once: what is being edited must not change below it. */
export function codeQuery(path: FunctionPlace) {
  return queryOptions({
    queryKey: ["function code", path],
    queryFn: ({ signal }) => answerOf(api.GET(`${ONE}/code`, { params: { path }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

export function connectorsQuery(cluster: string) {
  return queryOptions({
    queryKey: ["connectors", cluster],
    queryFn: async ({ signal }) =>
      (
        await answerOf(
          api.GET("/api/v1/clusters/{cluster}/connectors", { params: { path: { cluster } }, signal }),
        )
      ).connectors as unknown as Connector[],
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function previewRun(path: FunctionPlace, run: Run): Promise<RunPreview> {
  const body = { preview: true, ...run };
  return answerOf(api.POST(`${ONE}/run`, { params: { path }, body })) as Promise<RunPreview>;
}

/** The previewed action that belongs to this token, and no other. */
export function applyRun(path: FunctionPlace, token: string): Promise<RunReceipt> {
  const body = { preview: false, token };
  return answerOf(api.POST(`${ONE}/run`, { params: { path }, body })) as Promise<RunReceipt>;
}

export function previewDelete(path: FunctionPlace): Promise<DeletePreview> {
  const body = { preview: true };
  return answerOf(api.POST(`${ONE}/delete`, { params: { path }, body })) as Promise<DeletePreview>;
}

/** The previewed deletion that belongs to this token. */
export function applyDelete(path: FunctionPlace, token: string): Promise<DeleteReceipt> {
  const body = { preview: false, token };
  return answerOf(api.POST(`${ONE}/delete`, { params: { path }, body })) as Promise<DeleteReceipt>;
}

export function previewDeploy(path: FunctionPlace, deployment: Deployment): Promise<DeployPreview> {
  const body = { preview: true, ...deployment };
  return answerOf(api.POST(`${ONE}/deploy`, { params: { path }, body })) as Promise<DeployPreview>;
}

/** The previewed deployment that belongs to this token. */
export function applyDeploy(path: FunctionPlace, token: string): Promise<DeployReceipt> {
  const body = { preview: false, token };
  return answerOf(api.POST(`${ONE}/deploy`, { params: { path }, body })) as Promise<DeployReceipt>;
}

/** Runs the function on the last messages of its inputs; nothing is changed by it. */
export function tryFunction(
  path: FunctionPlace,
  deployment: Deployment,
  messages: number,
): Promise<FunctionTrial> {
  const body = { ...deployment, messages };
  return answerOf(longCalls.POST(`${ONE}/try`, { params: { path }, body })) as Promise<FunctionTrial>;
}
