import { answerOf, api } from "../client";
import type { components } from "../schema";

// Calls about who uses the console. They are made outside the query cache, which belongs to one viewer.

type Schemas = components["schemas"];

export type Session = Schemas["SessionAnswer"];
export type Person = NonNullable<Session["person"]>;
export type ActingRole = Schemas["ActingRoleShape"];
export type OpenSession = Schemas["PersonSessionShape"];
export type Level = ActingRole["level"];

export function readSession(): Promise<Session> {
  return answerOf(api.GET("/api/v1/session"));
}

export function signIn(body: Schemas["SignInBodyRequest"]): Promise<Session> {
  return answerOf(api.POST("/api/v1/session/sign-in", { body }));
}

export function setUp(body: Schemas["SetUpBodyRequest"]): Promise<Session> {
  return answerOf(api.POST("/api/v1/session/set-up", { body }));
}

export function signOut(): Promise<{ end_session_href: string | null }> {
  return answerOf(api.POST("/api/v1/session/sign-out"));
}

export function actAs(role: string): Promise<Session> {
  return answerOf(api.POST("/api/v1/session/acting-role", { body: { role } }));
}

/** Shows the console as a role sees it; null ends that. */
export function viewAs(role: string | null): Promise<Session> {
  return answerOf(api.POST("/api/v1/session/view-as", { body: { role } }));
}

export function changePassword(body: Schemas["PasswordBodyRequest"]): Promise<unknown> {
  return answerOf(api.POST("/api/v1/session/password", { body }));
}

export async function ownSessions(signal: AbortSignal): Promise<OpenSession[]> {
  return (await answerOf(api.GET("/api/v1/session/sessions", { signal }))).rows;
}

export function endOwnSession(id: string): Promise<unknown> {
  return answerOf(
    api.DELETE("/api/v1/session/sessions/{session_id}", { params: { path: { session_id: id } } }),
  );
}
