import type { Person } from "../../api/session/calls";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import { MONTH, QUARTER, TokenForm, WEEK, YEAR } from "../../shared/people/token-form";
import { Command } from "../../ui/copy";
import { issueToken, OWN_TOKENS } from "./token-queries";

const TIMES = [WEEK, MONTH, QUARTER, YEAR];

/** Creates a personal token, which is shown once. */
export function NewTokenDialog({ person, onClose }: { person: Person; onClose: () => void }) {
  return (
    <TokenForm
      title="New personal token"
      size="md"
      levels={LEVELS.slice(LEVELS.indexOf(person.level))}
      times={TIMES}
      initialTime={MONTH}
      levelText={(level) => `It acts as ${person.role}: ${LEVEL_WORDS[level]}`}
      remark={() => "It serves at gateways: REST and the console's API. Brokers refuse it."}
      issue={issueToken}
      queryKey={OWN_TOKENS}
      onClose={onClose}
    >
      <Command
        label="curl"
        note="after export PULSAR_TOKEN=…"
        text={`curl -H "Authorization: Bearer $PULSAR_TOKEN" ${location.origin}/admin/v2/tenants`}
      />
    </TokenForm>
  );
}
