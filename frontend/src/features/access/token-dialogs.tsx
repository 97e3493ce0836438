import { useQueryClient } from "@tanstack/react-query";
import { dateTime } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { ACCESS_COMMANDS } from "../../shared/commands/access-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import type { Token } from "../../shared/people/token-columns";
import { MONTH, NEVER, ONE_DAY, QUARTER, TokenForm, YEAR } from "../../shared/people/token-form";
import { issueToken, revokeToken } from "./token-queries";

const TIMES = [ONE_DAY, MONTH, QUARTER, YEAR, NEVER];

/** Issues a token of a role, which is shown once. */
export function NewTokenDialog({ role, onClose }: { role: string; onClose: () => void }) {
  return (
    <TokenForm<number | null>
      title={`New token of ${role}`}
      size="lg"
      levels={LEVELS}
      times={TIMES}
      initialTime={MONTH}
      levelText={(level) => LEVEL_WORDS[level]}
      remark={(level) =>
        level === "full"
          ? "It serves at brokers and at gateways."
          : "It serves at gateways: REST and the console's API. Brokers refuse it."
      }
      issue={(wanted) => issueToken({ ...wanted, role })}
      queryKey={["tokens"]}
      commands={(wanted) => <CommandLines of={ACCESS_COMMANDS.issueToken({ ...wanted, role })} />}
      onClose={onClose}
    />
  );
}

/** Revokes a token. */
export function RevokeDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const client = useQueryClient();
  const { id, name, role, used_at } = token;
  return (
    <ChangeDialog
      title="Revoke token"
      target={<b>{name}</b>}
      what="token"
      id={["token", id]}
      wanted={id}
      ask={async () => ({ token: id })}
      apply={revokeToken}
      preview={() => (
        <p>
          Programs with this token are not {role} any more, and their connections are closed. This cannot be
          undone. {used_at === null ? "No gateway has seen it." : `Last used ${dateTime(used_at)}.`}
        </p>
      )}
      receipt={() => <p>{name} is revoked.</p>}
      label={() => "Revoke"}
      red
      commands={() => ACCESS_COMMANDS.revokeToken(id)}
      onChanged={() => client.invalidateQueries({ queryKey: ["tokens"] })}
      onClose={onClose}
    />
  );
}
