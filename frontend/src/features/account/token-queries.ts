import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, given, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import { TOKENS_PER_PAGE, type Token, type TokenSort } from "../../shared/people/token-columns";

type Schemas = components["schemas"];

export type NewToken = Schemas["OwnTokenBodyRequest"];

/** The key of all pages of the tokens. */
export const OWN_TOKENS = ["session", "tokens"];

export function ownTokensQuery(q: string, sort: TokenSort, page: number) {
  return queryOptions({
    queryKey: [...OWN_TOKENS, q, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/session/tokens", {
          params: { query: given({ q: q || undefined, sort, ...rowsOf(page, TOKENS_PER_PAGE) }) },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

export function issueToken(body: NewToken) {
  return answerOf(api.POST("/api/v1/session/tokens", { body }));
}

export function revokeToken(id: string): Promise<Token> {
  return answerOf(
    api.DELETE("/api/v1/session/tokens/{token_id}", { params: { path: { token_id: Number(id) } } }),
  );
}
