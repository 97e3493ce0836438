import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { Copy } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { type AuditVerification, verificationQuery } from "./queries";

/** Verifies the whole audit log, and shows the last link of its chain, or the first problem. */
export function VerificationDialog({ onClose }: { onClose: () => void }) {
  const verification = useQuery(verificationQuery());
  const failure = failureOf(verification);
  return (
    <Dialog onClose={onClose} title="Verify the audit log" size="lg">
      <div className={styles.dialog}>
        {failure && (
          <ErrorNotice
            error={failure}
            title="The audit log could not be verified"
            onRetry={verification.refetch}
          />
        )}
        {verification.data ? (
          <Result of={verification.data} />
        ) : (
          !failure && <Loading label="Verifying all entries" rows={3} />
        )}
        <div className={styles.buttons}>
          <Button onClick={onClose} data-autofocus>
            Close
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function Result({ of }: { of: AuditVerification }) {
  const { problem, entry_id: id, entries, removed_to: removedTo, link } = of;
  const noted = `${link.number}:${link.digest}`;
  return (
    <>
      {problem ? (
        <div role="alert">
          <Notice tone="error">
            <strong>The audit log does not fit its chain</strong>
            <p lang="en">{problem.charAt(0).toUpperCase() + problem.slice(1)}.</p>
            {id !== null && (
              <p>
                <Link to="/audit/$id" params={{ id }}>
                  Show entry {id} as it is stored now
                </Link>
              </p>
            )}
          </Notice>
        </div>
      ) : (
        <p role="status">
          <b>{plural(entries, "entry", "entries")} verified.</b> None was changed, removed or inserted
          otherwise than by a gateway.
        </p>
      )}
      <dl className={styles.facts}>
        {removedTo !== null && (
          <Fact label="Not verified">
            entries up to {count(Number(removedTo))}, which are no longer kept or are older than the chain
          </Fact>
        )}
        <Fact label={problem ? "Last link that fits" : "Last link"}>
          {link.number === 0 ? (
            "none"
          ) : (
            <>
              <span className="mono">{noted}</span>
              <Copy value={noted} what="the last link" />
              {!problem && (
                <small>
                  Store it on another machine: a later <span className="mono">audit_verify --noted</span>{" "}
                  fails if it has changed.
                </small>
              )}
            </>
          )}
        </Fact>
      </dl>
    </>
  );
}
