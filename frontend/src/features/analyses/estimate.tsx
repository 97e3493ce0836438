import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { failureOf } from "../../lib/errors";
import { bytes, duration, plural } from "../../lib/format";
import { ErrorNotice } from "../../ui/states";
import styles from "./analyses.module.css";
import { type Estimate, estimateQuery } from "./queries";

const TYPING_MS = 400;

/** The amounts that the form's run would read; `parameters` is null while the form cannot be sent. */
export function EstimateOf({
  analysis,
  parameters,
}: {
  analysis: string;
  parameters: Record<string, unknown> | null;
}) {
  const [settled] = useDebouncedValue(parameters === null ? "" : JSON.stringify(parameters), TYPING_MS);
  const found = useQuery({
    ...estimateQuery(analysis, settled === "" ? {} : JSON.parse(settled)),
    enabled: settled !== "",
  });
  if (settled === "") return null;
  if (failureOf(found)) return <ErrorNotice error={found.error} title="Its amount could not be estimated" />;
  return (
    <p className={styles.about} role="status">
      {found.data ? estimateText(found.data) : "Estimating…"}
    </p>
  );
}

/** An estimate in one sentence; what is not known is left out. */
export function estimateText({ topics, messages, bytes: size, exact, seconds }: Estimate): string {
  const amounts = [
    plural(topics, "topic or partition", "topics and partitions"),
    messages !== null ? `about ${plural(Math.round(messages), "message")}` : null,
    messages === null && "messages not counted yet",
    size !== null && bytes(size),
  ].filter(Boolean);
  const time = seconds === null ? "its time is not known yet" : `about ${duration(Math.max(seconds, 1))}`;
  const least = exact ? "" : "at least ";
  return `Reads ${least}${amounts.join(", ")}; ${time}.`;
}
