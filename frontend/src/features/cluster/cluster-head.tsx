import { Link, useParams } from "@tanstack/react-router";
import { useHealth } from "../../api/health";
import { time } from "../../lib/format";
import { lackOfPage, useLacks } from "../../shared/lacking/lacking";
import { Badge, toneOfState } from "../../ui/badge";
import { PageHead } from "../../ui/panel";
import { useTitle } from "../../ui/use-title";
import styles from "./cluster.module.css";

const TABS = [
  ["Brokers", "/c/$cluster/brokers"],
  ["Bundles", "/c/$cluster/bundles"],
  ["Bookies", "/c/$cluster/bookies"],
  ["Settings", "/c/$cluster/settings"],
] as const;

/** Head of the four pages, with links between them. `at`: when the answer arrived, 0 before. */
export function ClusterHead({ title, at, failed }: { title: string; at: number; failed: boolean }) {
  const { cluster = "" } = useParams({ strict: false });
  useTitle(`${title} · Cluster`);
  const lacks = useLacks();
  const isOld = useHealth().stale || failed;
  return (
    <div className={styles.head}>
      <PageHead
        title="Cluster"
        badges={<Badge>{cluster}</Badge>}
        freshness={at > 0 && isOld && <span className={styles.old}>{`Stale · read at ${time(at)}`}</span>}
      />
      <nav aria-label="Parts of the cluster" className={styles.tabs}>
        {TABS.filter(([, to]) => !lackOfPage(to, lacks)).map(([label, to]) => (
          <Link key={to} to={to} params={{ cluster }} activeProps={{ "aria-current": "page" }}>
            {label}
          </Link>
        ))}
      </nav>
    </div>
  );
}

/** A state in words and colour; `since`: when it began, ms. */
export function State({ text, since }: { text: string; since?: number }) {
  return (
    <span title={since ? `since ${time(since)}` : undefined}>
      <Badge tone={toneOfState(text)} dot>
        {text}
      </Badge>
    </span>
  );
}
