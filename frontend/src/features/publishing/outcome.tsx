import { Link } from "@tanstack/react-router";
import { count, plural } from "../../lib/format";
import { looks } from "../../shared/messages/looks";
import { useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { CheckIcon } from "../../ui/icons";
import { Notice } from "../../ui/states";
import type { PublishReceipt } from "./publish";

export interface ShownProblem {
  /** Such as `line 7, value.id`. */
  place: string;
  reason: string;
}

const PROBLEMS_MAX = 20;

/** Problems of messages, by place. `total`: their number, where not all are given. */
export function ProblemsNotice({
  problems,
  total = problems.length,
}: {
  problems: ShownProblem[];
  total?: number;
}) {
  return (
    <Notice tone="error">
      <ul style={looks.whole}>
        {problems.slice(0, PROBLEMS_MAX).map(({ place, reason }) => (
          <li key={place}>
            <b>{place}</b>: <span lang="en">{reason}</span>
          </li>
        ))}
      </ul>
      {total > PROBLEMS_MAX && <p>and {count(total - PROBLEMS_MAX)} more</p>}
    </Notice>
  );
}

/** The result of one published message, with the link to it. */
export function Outcome({ receipt }: { receipt: PublishReceipt }) {
  const id = useTopicId();
  const refused = receipt.results.filter(({ problem }) => problem !== null);
  return (
    <>
      {receipt.results.map(({ id: message, partition }) =>
        message === null ? null : (
          <p key={`${partition} ${message}`} role="status">
            <CheckIcon /> Published as{" "}
            {id.domain === "persistent" ? (
              <Link
                to="/c/$cluster/t/$tenant/$namespace/$topic/messages/$message"
                params={{
                  ...id,
                  topic:
                    partition < 0 || /-partition-\d+$/.test(id.topic)
                      ? id.topic
                      : `${id.topic}-partition-${partition}`,
                  message,
                }}
                search={topicSearchOf(id)}
                className="topic-link"
              >
                message {message}
                {partition >= 0 && ` of partition ${partition}`}
              </Link>
            ) : (
              "a message that nothing stores"
            )}
            .
          </p>
        ),
      )}
      {refused.length > 0 && (
        <ProblemsNotice
          problems={refused.map(({ problem }) => ({
            place: plural(refused.length, "message"),
            reason: problem ?? "",
          }))}
        />
      )}
    </>
  );
}
