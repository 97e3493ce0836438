import type { Verdict } from "../../api/types";
import { Notice } from "../../ui/states";
import { Strategy } from "./versions";

/** Whether a candidate may be the next version, by which strategy, and the incompatible field. */
export function VerdictNotice({ verdict }: { verdict: Verdict }) {
  if (verdict.version !== null)
    return (
      <Notice tone="info">
        <p>
          <strong>{`It is version ${verdict.version} already.`}</strong>
        </p>
      </Notice>
    );
  return (
    <Notice tone={verdict.compatible ? "info" : "error"}>
      <p>
        <strong>
          {verdict.compatible
            ? verdict.newest < 0
              ? "It may be the first version."
              : `It may follow version ${verdict.newest}.`
            : `It may not follow version ${verdict.newest}.`}
        </strong>{" "}
        <Strategy strategy={verdict.strategy} />
      </p>
      {verdict.reason && <p lang="en">{verdict.reason}</p>}
    </Notice>
  );
}
