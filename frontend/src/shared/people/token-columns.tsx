import type { ReactNode } from "react";
import type { components } from "../../api/schema";
import { dateTime } from "../../lib/format";
import { Badge } from "../../ui/badge";
import type { Column } from "../../ui/grid/table";

export type Token = components["schemas"]["TokenRow"];

const at = (moment: number | null) => <>{moment === null ? "never" : dateTime(moment)}</>;

export const NAME: Column<Token> = {
  key: "name",
  header: "Name",
  grow: true,
  cell: ({ name }) => <span title={name}>{name}</span>,
};

/** The times of a token: its creation, its last use and its end. */
export const TIMES: readonly Column<Token>[] = [
  { key: "created", header: "Created", wide: true, cell: ({ created_at }) => at(created_at) },
  { key: "used", header: "Last used", wide: true, cell: ({ used_at }) => at(used_at) },
  { key: "expires", header: "Expires", wide: true, cell: ({ expires_at }) => at(expires_at) },
];

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
