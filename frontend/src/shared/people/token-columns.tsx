import type { ReactNode } from "react";
import type { components } from "../../api/schema";
import { dateTime } from "../../lib/format";
import { Badge } from "../../ui/badge";
import type { Sort, SortableBy } from "../../ui/grid/sorting";
import type { Column } from "../../ui/grid/table";

export type Token = components["schemas"]["TokenRow"];

export const TOKEN_SORTS = ["name", "level", "created_at", "used_at", "expires_at"] as const;
export type TokenField = (typeof TOKEN_SORTS)[number];
export type TokenSort = Sort<TokenField>;
export const NEWEST_FIRST: TokenSort = "-created_at";
export const TOKENS_PER_PAGE = 100;

const at = (moment: number | null) => <>{moment === null ? "never" : dateTime(moment)}</>;

export function nameColumn(by: SortableBy<TokenField>): Column<Token> {
  return {
    ...by("name"),
    key: "name",
    header: "Name",
    grow: true,
    cell: ({ name }) => <span title={name}>{name}</span>,
  };
}

/** The times of a token: its creation, its last use and its end. */
export function timeColumns(by: SortableBy<TokenField>): Column<Token>[] {
  return [
    {
      ...by("created_at", true),
      key: "created",
      header: "Created",
      wide: true,
      cell: ({ created_at }) => at(created_at),
    },
    {
      ...by("used_at", true),
      key: "used",
      header: "Last used",
      wide: true,
      cell: ({ used_at }) => at(used_at),
    },
    {
      ...by("expires_at"),
      key: "expires",
      header: "Expires",
      wide: true,
      cell: ({ expires_at }) => at(expires_at),
    },
  ];
}

/** The end of a token, if any; `revoke` shows the action for one that serves at `now`. */
export function endColumn(now: number, revoke: (token: Token) => ReactNode): Column<Token> {
  return {
    key: "end",
    header: "Action",
    headerHidden: true,
    cell: (token) => {
      if (token.revoked_at !== null) return <Badge>revoked</Badge>;
      if (token.expires_at !== null && token.expires_at <= now) return <Badge>expired</Badge>;
      return revoke(token);
    },
  };
}
