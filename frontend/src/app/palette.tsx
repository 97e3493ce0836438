import { createSpotlight, Spotlight, useSpotlight } from "@mantine/spotlight";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type MouseEvent, type ReactNode, useEffect, useRef, useState } from "react";
import type { TopicRow } from "../api/types";
import { places } from "../features";
import { topicsQuery } from "../features/topics/queries";
import { known, plural, short } from "../lib/format";
import { topicSearchOf, useCluster } from "../shared/topic-link";
import { SearchIcon, TopicsIcon } from "../ui/icons";
import styles from "./palette.module.css";

const [store, spotlight] = createSpotlight();
const SHOWN = 8;
const LIST = "palette-list";

export const openPalette = spotlight.open;

/** Ctrl K: part of a topic's name, or of a place, then Enter. */
export function Palette() {
  const [query, setQuery] = useState("");
  const navigate = useNavigate();
  const cluster = useCluster();
  const text = query.trim();
  const topics = useQuery({
    ...topicsQuery({ cluster, q: text, sort: "-backlog" }, 0, SHOWN),
    enabled: text !== "",
    placeholderData: keepPreviousData,
  });
  const listedPlaces = places.filter((place) => place.label.toLowerCase().includes(text.toLowerCase()));
  const rows = text === "" ? [] : (topics.data?.rows ?? []);
  const total = topics.data?.total ?? 0;

  // Enter may come before the answer to the last keystroke: it then waits, rather than open what was listed
  // for an earlier text. The first match is always the selected one.
  const settled = text === "" || topics.isError || (topics.isSuccess && !topics.isPlaceholderData);
  const entered = useRef(false);
  const { opened } = useSpotlight(store);
  const listed = `${opened} ${listedPlaces.length} ${rows.map((row) => row.name).join(" ")}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `listed` stands for the items in the document
  useEffect(() => {
    if (!opened) return;
    const first = selectFirst();
    if (!settled || !entered.current) return;
    entered.current = false;
    first?.click();
  }, [opened, listed, settled]);
  const pick = (go: () => void) => (event: MouseEvent) => {
    if (event.detail === 0 && !settled) return;
    spotlight.close();
    go();
  };

  const openTopic = (row: TopicRow) =>
    navigate({
      to: "/c/$cluster/t/$tenant/$namespace/$topic/overview",
      params: { cluster, tenant: row.tenant, namespace: row.namespace, topic: row.topic },
      search: topicSearchOf(row),
    });

  return (
    <Spotlight.Root
      store={store}
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K", "/"]}
      clearQueryOnClose
      closeOnActionTrigger={false}
      transitionProps={{ duration: 0 }}
      centered={false}
      attributes={{ content: { "aria-label": "Open a topic or a place" } }}
      overlayProps={{ backgroundOpacity: 0.35 }}
    >
      <Spotlight.Search
        placeholder="Part of a topic's name, or a place"
        aria-label="Open a topic or a place"
        leftSection={<SearchIcon />}
        autoFocus
        onKeyDown={(event) => {
          entered.current = event.key === "Enter" && !settled;
        }}
      />
      <Spotlight.ActionsList id={LIST}>
        {rows.map((row) => (
          <Item key={row.name} onPick={pick(() => openTopic(row))} icon={<TopicsIcon />}>
            <span className={styles.name}>
              <span className="topic-scope">
                {row.tenant}/{row.namespace}/
              </span>
              {row.topic}
            </span>
            <span className={styles.note}>
              {row.domain === "non-persistent" ? "non-persistent" : `backlog ${known(row.backlog, short)}`}
            </span>
          </Item>
        ))}
        {rows.length > 0 && total > rows.length && (
          <Item
            icon={<SearchIcon />}
            onPick={pick(() =>
              navigate({ to: "/c/$cluster/topics", params: { cluster }, search: { q: text } }),
            )}
          >
            <span className={styles.name}>Show all {plural(total, "matching topic")}</span>
          </Item>
        )}
        {listedPlaces.map((place) => (
          <Item
            key={place.label}
            onPick={pick(() => navigate({ to: place.path(cluster) }))}
            icon={<place.icon />}
          >
            <span className={styles.name}>{place.label}</span>
            <span className={styles.note}>page</span>
          </Item>
        ))}
        {rows.length === 0 && listedPlaces.length === 0 && (
          <Spotlight.Empty>
            {topics.isError
              ? `The search failed: ${topics.error.message}`
              : topics.isFetching
                ? "Searching…"
                : "No topic has this in its name"}
          </Spotlight.Empty>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

/** The kit marks the selected item in the document, and only the arrow keys move it: do the same for the first. */
function selectFirst(): HTMLElement | null {
  const list = document.getElementById(LIST);
  const first = list?.querySelector<HTMLElement>("[data-action]") ?? null;
  list?.querySelector("[data-selected]")?.removeAttribute("data-selected");
  first?.setAttribute("data-selected", "true");
  store.setState({ ...store.getState(), selected: first ? 0 : -1 });
  return first;
}

function Item({
  icon,
  onPick,
  children,
}: {
  icon: ReactNode;
  onPick: (event: MouseEvent) => void;
  children: ReactNode;
}) {
  return (
    <Spotlight.Action onClick={onPick} className={styles.item}>
      {icon}
      {children}
    </Spotlight.Action>
  );
}
