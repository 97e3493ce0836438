import { notifications } from "@mantine/notifications";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useRouter, useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { environmentQuery } from "../../api/environment";
import { addressIn } from "../../api/page-cluster";
import { useSession } from "../../api/session/session";
import type { SavedView, TopicDetail, TopicRow } from "../../api/types";
import { places } from "../../features";
import { topicsQuery } from "../../features/topics/queries";
import { plural, short } from "../../lib/format";
import { parseNamespace } from "../../lib/url-state";
import { visible } from "../../lib/visible";
import { useWhyNot, useWhyNots } from "../../shared/access/may";
import { backlogText } from "../../shared/backlog/backlog-words";
import { scopesQuery, viewPath, viewsQuery } from "../../shared/lists/list-queries";
import { isOffered } from "../../shared/place";
import { type TopicId, topicQuery } from "../../shared/topic/queries";
import { type TopicRef, topicSearchOf, useCluster } from "../../shared/topic-link";
import {
  AnalysesIcon,
  BookmarkIcon,
  ClusterIcon,
  CopyIcon,
  ResetIcon,
  SearchIcon,
  SkipIcon,
  TenantsIcon,
  TopicsIcon,
} from "../../ui/icons";
import { ACTIONS, type Action, askedFor, hasWords, wordsOf } from "./actions";

export interface PaletteItem {
  key: string;
  icon: ComponentType;
  scope?: string; // dimmed, before the label
  label: string;
  note: string;
  topic?: TopicRef; // whose actions Tab shows
  stays?: boolean; // choosing it leaves the palette open
  why?: string | null; // the right that is missing for it, and who can give it
  run: () => void;
}

interface Palette {
  query: string;
  topic: TopicRef | null; // whose actions are listed
  enter: (topic: TopicRef, query?: string) => void;
  enabled: boolean;
}

const TOPICS = 8;
const SCOPES = 4;
const ICONS: Record<Action["key"], ComponentType> = {
  open: TopicsIcon,
  subscriptions: TopicsIcon,
  partitions: TopicsIcon,
  copy: CopyIcon,
  analyse: AnalysesIcon,
  "skip-all": SkipIcon,
  skip: SkipIcon,
  reset: ResetIcon,
};

/** The palette's items for a text. `settled`: they are for this text, not for an earlier one. */
export function usePaletteItems({ query, topic, enter, enabled }: Palette) {
  const cluster = useCluster();
  const words = wordsOf(query);
  const text = words.join(" ");
  const asked = topic ? null : askedFor(words);
  const here = useTopicHere();
  const searching = enabled && !topic && words.length > 0;

  const topics = useQuery({
    ...topicsQuery({ cluster, q: text, sort: "-backlog" }, 0, TOPICS),
    enabled: searching,
    placeholderData: keepPreviousData,
  });
  const targets = useQuery({
    ...topicsQuery({ cluster, q: asked?.rest ?? "", sort: "-backlog" }, 0, TOPICS),
    enabled: searching && asked !== null,
    placeholderData: keepPreviousData,
  });
  const scopes = useQuery({
    ...scopesQuery(cluster, text, SCOPES),
    enabled: searching,
    placeholderData: keepPreviousData,
  });
  const entered = topic ?? (words.length === 0 || asked?.rest === "" ? here : null);
  const detail = useQuery({
    ...topicQuery(idOf(cluster, entered)),
    enabled: enabled && entered !== null,
  });

  const waiting = [searching && topics, searching && asked && targets, searching && scopes, topic && detail];
  const settled = waiting.every((one) => !one || one.isError || (one.isSuccess && !one.isPlaceholderData));
  const views = useQuery({ ...viewsQuery, enabled: enabled && !topic });
  const refused = useRefused(cluster, entered, detail.data, enabled);
  const of = useItems(cluster, enter, refused);

  if (topic) {
    const items = of
      .actions(topic, detail.data, ACTIONS)
      .filter((item) => hasWords(`${item.label} ${item.note} ${item.words}`, words));
    return {
      items,
      settled,
      emptiness: detail.isError ? `Could not be read: ${detail.error.message}` : "No such action",
    };
  }
  const own = here ? of.actions(here, detail.data, asked?.actions ?? ACTIONS) : [];
  const mine = own.filter(
    (item) => item.key !== `open ${nameOf(here)}` && (asked?.rest === "" || !words.length),
  );
  const found = searching ? (topics.data?.rows ?? []) : [];
  const verbs = asked && searching ? of.verbs(targets.data?.rows ?? [], asked.actions) : [];
  const items = [
    ...(words.length > 0 ? mine : []),
    ...verbs.filter((item) => !here || nameOf(item.topic ?? null) !== nameOf(here)),
    ...found.map(of.topic),
    ...(topics.data && found.length > 0 && topics.data.total > found.length
      ? [of.all(text, topics.data.total)]
      : []),
    ...(searching ? of.scopes(scopes.data) : []),
    ...of.views(views.data ?? [], words),
    ...of.places(words),
    ...of.console(words),
    ...(words.length === 0 ? mine : []),
  ];
  const emptiness = topics.isError
    ? `The search failed: ${topics.error.message}`
    : topics.isFetching
      ? "Searching…"
      : "No name contains these words";
  return { items, settled, emptiness };
}

/** The right that is missing for an action; null while it is allowed, or not known to be refused. */
type Refused = (action: Action["key"] | "create tenant", subscription?: string) => string | null;

/** Subscriptions whose rights are read at once; the page of the topic shows those of others. */
const JUDGED_MAX = 8;
const OPERATIONS: Partial<Record<Action["key"], string>> = {
  analyse: "startRun",
  "skip-all": "skipAll",
  skip: "skip",
  reset: "reset",
};

/** Operations that are refused to the user on the entered topic and in the cluster. */
function useRefused(
  cluster: string,
  entered: TopicRef | null,
  detail: TopicDetail | undefined,
  enabled: boolean,
): Refused {
  const topic = nameOf(entered);
  const subscriptions = (detail?.subscriptions ?? []).slice(0, JUDGED_MAX).map(({ name }) => name);
  const ofCluster = useWhyNot(cluster, {}, enabled);
  const ofTopic = useWhyNot(cluster, { topic }, enabled && topic !== "");
  const places = subscriptions.map((subscription) => ({ topic, subscription }));
  const ofSubscriptions = useWhyNots(cluster, enabled && topic !== "" ? places : []);
  return (action, subscription) => {
    if (action === "create tenant") return ofCluster("createTenant");
    const operation = OPERATIONS[action];
    if (!operation) return null;
    if (subscription === undefined) return ofTopic(operation);
    return ofSubscriptions[subscriptions.indexOf(subscription)]?.(operation) ?? null;
  };
}

function useItems(cluster: string, enter: Palette["enter"], refused: Refused) {
  const navigate = useNavigate();
  const person = useSession().session?.person ?? null;
  const served = useQuery(environmentQuery).data?.served ?? [];
  const others = served.filter((name) => name !== cluster);
  const router = useRouter();
  const open = (topic: TopicRef, tab: "overview" | "subscriptions" | "partitions", search = {}) =>
    navigate({
      to: `/c/$cluster/t/$tenant/$namespace/$topic/${tab}`,
      params: { cluster, tenant: topic.tenant, namespace: topic.namespace, topic: topic.topic },
      search: { ...topicSearchOf(topic), ...search },
    });
  const scopeOf = (topic: TopicRef) => `${topic.tenant}/${topic.namespace}/`;

  const runOf = (topic: TopicRef): Partial<Record<Action["key"], () => void>> => ({
    open: () => open(topic, "overview"),
    subscriptions: () => open(topic, "subscriptions"),
    partitions: () => open(topic, "partitions"),
    copy: () => copy(nameOf(topic)),
    analyse: () => navigate({ to: "/analyses", search: { topic: nameOf(topic) } }),
  });

  return {
    topic: (row: TopicRow): PaletteItem => ({
      key: row.name,
      icon: TopicsIcon,
      scope: scopeOf(row),
      label: row.topic,
      note: row.domain === "non-persistent" ? "non-persistent" : `backlog ${backlogText(row, short)}`,
      topic: row,
      run: () => open(row, "overview"),
    }),

    /** The actions on a topic, and on its subscriptions once they are known. */
    actions: (
      topic: TopicRef,
      detail: TopicDetail | undefined,
      actions: readonly Action[],
    ): (PaletteItem & { words: string })[] =>
      actions.flatMap((action) => {
        const base = { icon: ICONS[action.key], words: action.words };
        if (action.of === "subscription")
          return (detail?.subscriptions ?? []).map((subscription) => ({
            ...base,
            key: `${action.key} ${subscription.name} ${nameOf(topic)}`,
            label: `${action.label} ${subscription.name}`,
            note: `backlog ${backlogText(subscription, short)}`,
            why: refused(action.key, subscription.name),
            run: () => open(topic, "subscriptions", { act: action.key, sub: subscription.name }),
          }));
        if (action.key === "partitions" && !detail?.row.partitions) return [];
        if (action.key === "analyse" && topic.domain !== "persistent") return [];
        const run = runOf(topic)[action.key];
        return run
          ? [
              {
                ...base,
                key: `${action.key} ${nameOf(topic)}`,
                label: action.label,
                note: topic.topic,
                why: refused(action.key),
                run,
              },
            ]
          : [];
      }),

    /** Actions on topics that were asked for by words; one of subscriptions asks for the subscription first. */
    verbs: (rows: readonly TopicRow[], actions: readonly Action[]): PaletteItem[] =>
      rows.slice(0, 4).flatMap((row) =>
        actions.flatMap((action) => {
          const run = runOf(row)[action.key];
          if (action.key === "partitions" && row.partitions === 0) return [];
          if (action.key === "analyse" && row.domain !== "persistent") return [];
          return [
            {
              key: `${action.key} ${row.name}`,
              icon: ICONS[action.key],
              label: action.label,
              note: `${scopeOf(row)}${row.topic}`,
              topic: row,
              stays: !run,
              run: run ?? (() => enter(row, action.label.replace("…", ""))),
            },
          ];
        }),
      ),

    all: (text: string, total: number): PaletteItem => ({
      key: "all",
      icon: SearchIcon,
      label: `Show all ${plural(total, "matching topic")}`,
      note: "",
      run: () => navigate({ to: "/c/$cluster/topics", params: { cluster }, search: { q: text } }),
    }),

    scopes: (
      found: { tenants: { names: string[] }; namespaces: { names: string[] } } | undefined,
    ): PaletteItem[] => [
      ...(found?.tenants.names ?? []).map((tenant) => ({
        key: `tenant ${tenant}`,
        icon: TenantsIcon,
        label: tenant,
        note: "tenant",
        run: () => navigate({ to: "/c/$cluster/tenants/$tenant", params: { cluster, tenant } }),
      })),
      ...(found?.namespaces.names ?? []).map((name) => {
        const { tenant, namespace } = parseNamespace(name);
        return {
          key: `namespace ${name}`,
          icon: TenantsIcon,
          scope: `${tenant}/`,
          label: namespace,
          note: "namespace",
          run: () =>
            navigate({
              to: "/c/$cluster/tenants/$tenant/$namespace",
              params: { cluster, tenant, namespace },
            }),
        };
      }),
    ],

    views: (views: readonly SavedView[], words: string[]): PaletteItem[] =>
      views
        .filter((view) => words.length > 0 && hasWords(`${view.name} view`, words))
        .map((view) => ({
          key: `view ${view.id}`,
          icon: BookmarkIcon,
          label: view.name,
          note: "view",
          run: () => router.history.push(viewPath(cluster, view)),
        })),

    places: (words: string[]): PaletteItem[] =>
      places
        .filter((place) => isOffered(place, person) && hasWords(`${place.label} page`, words))
        .map((place) => ({
          key: `place ${place.label}`,
          icon: place.icon,
          label: place.label,
          note: "page",
          run: () => navigate({ to: place.path(cluster) }),
        })),

    console: (words: string[]): PaletteItem[] =>
      [
        ...others.map((name) => ({
          key: `switch ${name}`,
          icon: ClusterIcon,
          label: `Switch to cluster ${name}`,
          note: "cluster",
          words: "",
          run: () => location.assign(addressIn(name, location)),
        })),
        {
          key: "create tenant",
          icon: TenantsIcon,
          label: "Create a tenant…",
          note: "action",
          words: "new add",
          why: refused("create tenant"),
          run: () => navigate({ to: "/c/$cluster/tenants", params: { cluster }, search: { act: "create" } }),
        },
        {
          key: "launch analysis",
          icon: AnalysesIcon,
          label: "Launch an analysis…",
          note: "action",
          words: "new run analyse analyze profile",
          run: () => navigate({ to: "/analyses" }),
        },
        {
          key: "change bundle",
          icon: ClusterIcon,
          label: "Unload or split a bundle…",
          note: "action",
          words: "move balance broker owner",
          run: () => navigate({ to: "/c/$cluster/bundles", params: { cluster } }),
        },
        ...(["Brokers", "Bundles", "Bookies"] as const).map((label) => ({
          key: `cluster ${label}`,
          icon: ClusterIcon,
          label,
          note: "page",
          words: "cluster disk rack",
          run: () =>
            navigate({
              to: `/c/$cluster/${label.toLowerCase() as "brokers" | "bundles" | "bookies"}`,
              params: { cluster },
            }),
        })),
      ].filter((item) => hasWords(`${item.label} ${item.words}`, words)),
  };
}

function nameOf(topic: TopicRef | null): string {
  return topic ? `${topic.domain}://${topic.tenant}/${topic.namespace}/${topic.topic}` : "";
}

function idOf(cluster: string, topic: TopicRef | null): TopicId {
  const domain = topic?.domain === "non-persistent" ? "non-persistent" : "persistent";
  return {
    cluster,
    domain,
    tenant: topic?.tenant ?? "",
    namespace: topic?.namespace ?? "",
    topic: topic?.topic ?? "",
  };
}

/** The topic whose page this is. */
function useTopicHere(): TopicRef | null {
  const { tenant, namespace, topic } = useParams({ strict: false });
  const { domain } = useSearch({ strict: false });
  if (!tenant || !namespace || !topic) return null;
  return { domain: domain ?? "persistent", tenant, namespace, topic };
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notifications.show({ message: visible(`Copied ${text}`) });
  } catch {
    notifications.show({ color: "red", title: "The browser did not allow copying", message: visible(text) });
  }
}
