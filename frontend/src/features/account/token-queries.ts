import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import type { Token } from "../../shared/people/token-columns";

type Schemas = components["schemas"];

export type NewToken = Schemas["OwnTokenBodyRequest"];

export const TOKENS_SHOWN = 100;

export const ownTokensQuery = queryOptions({
  queryKey: ["session", "tokens"],
  queryFn: ({ signal }) =>
    answerOf(api.GET("/api/v1/session/tokens", { params: { query: { limit: TOKENS_SHOWN } }, signal })),
});

export function issueToken(body: NewToken) {
  return answerOf(api.POST("/api/v1/session/tokens", { body }));
}

export function revokeToken(id: string): Promise<Token> {
  return answerOf(
    api.DELETE("/api/v1/session/tokens/{token_id}", { params: { path: { token_id: Number(id) } } }),
  );
}
