import { useQueries } from "@tanstack/react-query";
import { answerOf, api } from "../api/client";
import { addressIn } from "../api/page-cluster";
import type { Environment } from "../api/types";
import { ErrorIcon } from "../ui/icons";
import styles from "./shell.module.css";

const CHECK_EVERY_MS = 5_000;
/** Parts of one cluster; all others are those of the gateway, about which the status line reports. */
const OF_CLUSTER: Record<string, string> = { store: "metadata store", broker: "broker", bookie: "bookie" };

/** The name of the cluster. Where the gateway serves several it is a list of them, which keeps the page. */
export function ClusterSwitch({ environment }: { environment: Environment | undefined }) {
  const { cluster = "", served = [] } = environment ?? {};
  const lost = useLost(served.filter((name) => name !== cluster));
  if (!environment) return "…";
  if (served.length < 2) return <span title="Cluster">{cluster}</span>;
  return (
    <>
      <select
        className={styles.switch}
        aria-label="Cluster"
        value={cluster}
        onChange={({ target }) => location.assign(addressIn(target.value, location))}
      >
        {served.map((name) => (
          <option key={name} value={name}>
            {lost.has(name) ? `${name}: ${lost.get(name)}` : name}
          </option>
        ))}
      </select>
      <span role="status">
        {[...lost].map(([name, reason]) => (
          <a key={name} className={styles.lost} href={addressIn(name, location)} title={`${name}: ${reason}`}>
            <ErrorIcon /> {name}
          </a>
        ))}
      </span>
    </>
  );
}

/** The other clusters that have a part that does not answer, or no broker, with the reason. */
function useLost(names: string[]): Map<string, string> {
  const states = useQueries({
    queries: names.map((name) => ({
      queryKey: ["health", name],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        answerOf(api.GET("/api/v1/health", { params: { query: { cluster: name } }, signal })),
      refetchInterval: CHECK_EVERY_MS,
      retry: false,
    })),
  });
  const lost = new Map<string, string>();
  states.forEach(({ data }, index) => {
    if (!data) return;
    const down = data.hops.filter(({ state }) => state === "down");
    const part = Object.keys(OF_CLUSTER).find((kind) => down.some(({ hop }) => hop === kind));
    // A broker that was stopped, or is lost for longer than its session, is not among the parts any more.
    const isRead = data.hops.some(
      ({ hop, id, state }) => hop === "store" && (id === "" || id === "rest") && state === "ok",
    );
    const hasBroker = data.hops.some(({ hop }) => hop === "broker");
    if (part) lost.set(names[index] ?? "", `a ${OF_CLUSTER[part]} does not answer`);
    else if (isRead && !hasBroker) lost.set(names[index] ?? "", "no broker is registered");
  });
  return lost;
}
