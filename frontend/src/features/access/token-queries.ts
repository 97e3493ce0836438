import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { Token } from "../../shared/people/token-columns";

type Schemas = components["schemas"];

export type NewToken = Schemas["NewTokenBodyRequest"];

const LISTED = 200;

/** The tokens of a role that the console issued, newest first, and why none can be issued; empty when one can. */
export function tokensQuery(role: string) {
  return queryOptions({
    queryKey: ["tokens", role],
    queryFn: async ({ signal }) => {
      const { obstacle, rows } = await answerOf(
        api.GET("/api/v1/tokens", { params: { query: { q: role, kind: "role", limit: LISTED } }, signal }),
      );
      // The search finds parts of names, too.
      return { obstacle, rows: rows.filter((row) => row.role === role) };
    },
  });
}

export function issueToken(body: NewToken) {
  return answerOf(api.POST("/api/v1/tokens", { body }));
}

export function revokeToken(id: string): Promise<Token> {
  return answerOf(api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: Number(id) } } }));
}
