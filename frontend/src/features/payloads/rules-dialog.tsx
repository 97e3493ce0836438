import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { ACCESS_COMMANDS } from "../../shared/commands/access-commands";
import { TextDifference } from "../../ui/code/text-difference";
import { applyRules, type PayloadRule, previewRules, rulesQuery } from "./queries";
import { OTHERWISE, rulesProblem, ruleText, trimmed } from "./rule-words";
import { RulesEditor } from "./rules-editor";

const sentences = (rules: readonly PayloadRule[]) => [...rules.map(ruleText), OTHERWISE].join("\n");

/** Replaces the payload rules. `stored`: the rules to begin with. */
export function RulesDialog({ stored, onClose }: { stored: readonly PayloadRule[]; onClose: () => void }) {
  const client = useQueryClient();
  const [rules, setRules] = useState(() => stored.slice());
  const problem = rulesProblem(rules);
  const wanted = problem ? null : trimmed(rules);
  return (
    <ChangeDialog
      title="Edit payload rules"
      target="Payloads of messages, for people and for tokens with a lower level"
      what="payload rules"
      id={["payload-rules"]}
      wanted={wanted}
      form={(isDisabled, refusal) => (
        <RulesEditor value={rules} error={refusal ?? problem} isDisabled={isDisabled} onChange={setRules} />
      )}
      ask={previewRules}
      apply={applyRules}
      preview={(change, { before, token }) =>
        token === null ? (
          <p>Nothing would change.</p>
        ) : (
          <>
            <TextDifference label="Rules now and then" before={sentences(before)} after={sentences(change)} />
            <p>They take effect within a second at all gateways.</p>
          </>
        )
      }
      receipt={(change) => <p>{plural(change.length, "rule")} in force.</p>}
      label={() => "Save"}
      commands={(change, { before }) => ACCESS_COMMANDS.setPayloadRules({ rules: change, expected: before })}
      onChanged={() => client.invalidateQueries({ queryKey: rulesQuery().queryKey })}
      onClose={onClose}
    />
  );
}
