import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answerOf, api, rowsOf } from "../../api/client";
import type { components } from "../../api/schema";
import { NEWEST_FIRST, TOKENS_PER_PAGE, type Token, type TokenSort } from "../../shared/people/token-columns";

type Schemas = components["schemas"];

export type NewToken = Schemas["NewTokenBodyRequest"];

/** A page of the tokens of a role that the console issued, and why none can be issued; empty when one can. */
export function tokensQuery(role: string, sort: TokenSort = NEWEST_FIRST, page = 1) {
  return queryOptions({
    queryKey: ["tokens", role, sort, page],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/tokens", {
          params: { query: { role, kind: "role", sort, ...rowsOf(page, TOKENS_PER_PAGE) } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
}

export function issueToken(body: NewToken) {
  return answerOf(api.POST("/api/v1/tokens", { body }));
}

export function revokeToken(id: string): Promise<Token> {
  return answerOf(api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: Number(id) } } }));
}
