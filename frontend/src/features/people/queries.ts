import { keepPreviousData, type QueryClient, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import type { Sort } from "../../ui/grid/sorting";

type Schemas = components["schemas"];

export type PersonRow = Schemas["PersonRow"];
export type NewPerson = Schemas["PersonBodyRequest"];
export type PersonChange = Schemas["PersonChangeRequest"];

export const PEOPLE_SORTS = [
  "name",
  "display_name",
  "active",
  "provider",
  "last_sign_in_at",
  "sessions",
] as const;
export type PeopleSort = Sort<(typeof PEOPLE_SORTS)[number]>;

export const PER_PAGE = 100;
const REFRESH_MS = 10_000;
const ONE = "/api/v1/people/{name}";

export function peopleQuery(q: string, sort: PeopleSort = "name", page = 1) {
  return queryOptions({
    queryKey: ["people", "list", q, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/people", {
          params: {
            query: given({ q: q || undefined, sort, ...rowsOf(page, PER_PAGE) }),
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
}

export function personQuery(name: string) {
  return queryOptions({
    queryKey: ["people", "one", name],
    queryFn: ({ signal }) => answerOf(api.GET(ONE, { params: { path: { name } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

export function sessionsQuery(name: string) {
  return queryOptions({
    queryKey: ["people", "sessions", name],
    queryFn: async ({ signal }) =>
      (await answerOf(api.GET(`${ONE}/sessions`, { params: { path: { name } }, signal }))).rows,
    refetchInterval: REFRESH_MS,
  });
}

export function refreshPeople(client: QueryClient): Promise<void> {
  return client.invalidateQueries({ queryKey: ["people"] });
}

export function createPerson(body: NewPerson) {
  return answerOf(api.POST("/api/v1/people", { body }));
}

export function changePerson(name: string, body: PersonChange): Promise<PersonRow> {
  return answerOf(api.PUT(ONE, { params: { path: { name } }, body }));
}

export interface PersonPreview {
  /** The stored state. */
  before: PersonRow;
  /** The change to be sent; null when it would change nothing. */
  token: string | null;
}

/** The stored person to which a change applies. `change` is null if it does not change the record. */
export async function previewOf(name: string, change: PersonChange | null): Promise<PersonPreview> {
  const before = await answerOf(api.GET(ONE, { params: { path: { name } } }));
  return { before, token: change && isSame(before, change) ? null : JSON.stringify(change) };
}

function isSame({ display_name, roles, active }: PersonRow, change: PersonChange): boolean {
  return (
    display_name === (change.display_name ?? "") &&
    active === change.active &&
    JSON.stringify(roles.map(({ role, level }) => [role, level])) ===
      JSON.stringify(change.roles.map(({ role, level }) => [role, level]))
  );
}

export function deletePerson(name: string): Promise<unknown> {
  return answerOf(api.DELETE(ONE, { params: { path: { name } } }));
}

export async function resetPassword(name: string): Promise<string> {
  return (await answerOf(api.POST(`${ONE}/reset-password`, { params: { path: { name } } })))
    .one_time_password;
}

export function endSession(name: string, id: string): Promise<unknown> {
  return answerOf(api.DELETE(`${ONE}/sessions/{session_id}`, { params: { path: { name, session_id: id } } }));
}

export function endSessions(name: string): Promise<unknown> {
  return answerOf(api.DELETE(`${ONE}/sessions`, { params: { path: { name } } }));
}
