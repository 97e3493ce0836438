import type { Attention, AttentionItem, Overview } from "../../api/types";
import { count, dateTime, plural, time } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { withMoments } from "../../lib/moments";
import { parseTopicName, stringifySearch } from "../../lib/url-state";
import { analysisOf, OFFERED } from "../../shared/analyses/catalogue";
import { nextStep, type Step } from "../../shared/next-step";
import { Copy } from "../../ui/copy";
import { CheckIcon, ClockIcon, ErrorIcon, WarningIcon } from "../../ui/icons";
import { Panel } from "../../ui/panel";
import { PathLink } from "../../ui/path-link";
import styles from "./needs-attention.module.css";

const DAY_MS = 86_400_000;
const ICONS = { error: ErrorIcon, warning: WarningIcon, info: ClockIcon };

/** Problems, most harmful first. The height does not depend on their number, so that nothing below moves. */
export function NeedsAttention({
  attention,
  cluster,
  at,
  totals,
}: {
  attention: Attention;
  cluster: string;
  at: number;
  totals: Looked;
}) {
  const { items, more, known, settled } = attention;
  return (
    <Panel
      title="Needs attention"
      note={
        items.length === 0
          ? undefined
          : !known
            ? "not every part answers: there may be more"
            : !settled
              ? "still checking: there may be more"
              : undefined
      }
      actions={
        more > 0 && (
          <PathLink path={listPath(cluster, "any")} className={styles.more}>
            {plural(more, "more problem")}
          </PathLink>
        )
      }
      flush
    >
      {items.length > 0 ? (
        <ul className={styles.items}>
          {items.map((item) => (
            <Item key={item.key} item={item} cluster={cluster} at={at} />
          ))}
        </ul>
      ) : (
        <div className={styles.items}>
          <Nothing attention={attention} at={at} totals={totals} />
        </div>
      )}
    </Panel>
  );
}

type Looked = Pick<Overview["totals"], "topics" | "subscriptions" | "unknown">;

/** The meaning of an empty list: only the checked parts have no problem, and since when. */
function Nothing({ attention, at, totals }: { attention: Attention; at: number; totals: Looked }) {
  const { known, since, settled } = attention;
  const from = since === null ? "" : at - since > DAY_MS ? dateTime(since) : time(since);
  if (!known)
    return (
      <p className={styles.unknown}>
        <WarningIcon size={20} />
        <b>What needs attention is not known.</b>
        <span>Some brokers or the metadata store do not answer.</span>
      </p>
    );
  if (settled)
    return (
      <p className={styles.calm}>
        <CheckIcon size={20} />
        <b>Nothing needs attention.</b>
        <span>
          All parts answer, and no problem was found for any of {plural(totals.subscriptions, "subscription")}{" "}
          on {plural(totals.topics, "topic")}, checked since {from}.
        </span>
      </p>
    );
  return (
    <p className={styles.looking}>
      <ClockIcon size={20} />
      <b>Checking all subscriptions…</b>
      <span>
        {since !== null
          ? `No problem was found since ${from}. A cause is shown when it has lasted for ten seconds.`
          : totals.unknown > 0
            ? `${count(totals.unknown)} of ${plural(totals.topics, "topic")} were not checked yet.`
            : "Not all were checked yet."}
      </span>
    </p>
  );
}

/** The analysis that explains an item, filled in; null where none fits. */
function analysisFor({ cause, topic, subscription }: AttentionItem) {
  const name = analysisOf({ cause, subscription });
  if (!name || topic.startsWith("non-persistent:")) return null;
  // The form takes of the place what the analysis has parameters for.
  return { title: OFFERED[name], path: `/analyses/${name}/new${stringifySearch({ topic, subscription })}` };
}

/** Links of an item are one line together: each line more would move the others. */
const LINKS = { display: "flex", gap: 12 } as const;

function Item({ item, cluster, at }: { item: AttentionItem; cluster: string; at: number }) {
  const Icon = ICONS[item.severity];
  const title = withMoments(item.title, at);
  const detail = withMoments(item.detail, at);
  const full = [title, detail, item.advice].filter(Boolean).join("\n");
  const step = stepOf(item, cluster);
  const analysis = analysisFor(item);
  return (
    <li className={styles[item.severity]}>
      <Icon />
      <span className="visually-hidden">{item.severity}: </span>
      <span className={styles.title} title={localized(full)}>
        {leadsAway(item.link) ? (
          <PathLink path={item.link} lang="en">
            {title}
          </PathLink>
        ) : (
          <b lang="en">{title}</b>
        )}
      </span>
      {item.since !== null && (
        <time
          className={styles.since}
          dateTime={new Date(item.since).toISOString()}
          title={dateTime(item.since)}
        >
          {item.at_least && "at least "}since{" "}
          {at - item.since > DAY_MS ? dateTime(item.since) : time(item.since)}
        </time>
      )}
      <span className={styles.detail} lang="en" title={full}>
        {detail}
      </span>
      <span className={styles.advice} lang="en" title={full}>
        {item.advice}
      </span>
      {
        <span className={styles.all} style={LINKS}>
          {step &&
            ("path" in step ? (
              <PathLink path={step.path}>{step.label}</PathLink>
            ) : (
              <Copy value={step.command} what={step.label.replace(/^Copy /, "")} />
            ))}
          {analysis && (
            <PathLink path={analysis.path} label={`${analysis.title}: ${localized(title)}`}>
              {analysis.title}
            </PathLink>
          )}
          {item.count > 1 && (
            <PathLink path={listPath(cluster, item.cause)}>Show all {count(item.count)}</PathLink>
          )}
          <PathLink path={alertPath(item, "rules")} label={`Alert about: ${localized(title)}`}>
            Alert…
          </PathLink>
          <PathLink path={alertPath(item, "silences")} label={`Silence: ${localized(title)}`}>
            Silence…
          </PathLink>
        </span>
      }
    </li>
  );
}

/** The advice, unless the item summarises many problems: those have a list. */
function stepOf(item: AttentionItem, cluster: string): Step | null {
  if (item.command) return { label: "Copy the command that starts it", command: item.command };
  const topic = item.count > 1 ? null : parseTopicName(item.topic);
  return topic && nextStep(item, cluster, topic, item.subscription);
}

/** The page of alerts with a rule or a silence begun about an item. */
function alertPath({ cause, topic, subscription, count }: AttentionItem, tab: "rules" | "silences"): string {
  const place = count > 1 ? {} : { scope: topic, subscription };
  return `/alerts${stringifySearch({ tab, cause, ...place })}`;
}

function listPath(cluster: string, cause: string): string {
  return `/c/${encodeURIComponent(cluster)}/topics?attention=${encodeURIComponent(cause)}`;
}

/** Only paths of this console are followed, and not the one this page is at. */
function leadsAway(link: string): boolean {
  return /^\/[^/]/.test(link);
}
