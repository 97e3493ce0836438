import { createSpotlight, Spotlight, useSpotlight } from "@mantine/spotlight";
import { type KeyboardEvent, type MouseEvent, useEffect, useRef, useState } from "react";
import type { TopicRef } from "../../shared/topic-link";
import { useFocusReturn } from "../../ui/dialog";
import { SearchIcon } from "../../ui/icons";
import styles from "./palette.module.css";
import { type PaletteItem, usePaletteItems } from "./use-palette-items";

const [store, spotlight] = createSpotlight();
const LIST = "palette-list";

export const openPalette = spotlight.open;

/** Ctrl K: words of a topic, a tenant, a page or an action, then Enter. Tab shows the actions of a topic. */
export function Palette() {
  const [query, setQuery] = useState("");
  const [topic, setTopic] = useState<TopicRef | null>(null);
  const { opened } = useSpotlight(store);
  useFocusReturn(opened);
  const enter = (next: TopicRef | null, text = "") => {
    setTopic(next);
    setQuery(text);
  };
  const { items, settled, emptiness } = usePaletteItems({ query, topic, enter, enabled: opened });

  // Enter may be pressed before the answer to the last keystroke: it then waits, and does not open a match of an
  // earlier text. The first match is always the selected one.
  const entered = useRef(false);
  const listed = `${opened} ${items.map(({ key }) => key).join(" ")}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `listed` stands for the items in the document
  useEffect(() => {
    if (!opened) return;
    const first = selectFirst();
    if (!settled || !entered.current) return;
    entered.current = false;
    first?.click();
  }, [opened, listed, settled]);
  const pick = (item: PaletteItem) => (event: MouseEvent) => {
    if ((event.detail === 0 && !settled) || item.why) return;
    if (!item.stays) spotlight.close();
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    entered.current = event.key === "Enter" && !settled;
    if (event.key === "Backspace" && topic && query === "") enter(null);
    if (event.key !== "Tab" || event.shiftKey || topic) return;
    const selected = document.querySelector<HTMLElement>(`#${LIST} [data-selected]`)?.dataset.key;
    const found = items.find(({ key }) => key === selected)?.topic;
    if (!found) return;
    event.preventDefault();
    enter(found);
  };

  return (
    <Spotlight.Root
      store={store}
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K", "/"]}
      clearQueryOnClose
      onSpotlightClose={() => setTopic(null)}
      closeOnActionTrigger={false}
      transitionProps={{ duration: 0 }}
      centered={false}
      attributes={{ content: { "aria-label": "Open a topic or a place" } }}
      overlayProps={{ backgroundOpacity: 0.35 }}
    >
      <Spotlight.Search
        placeholder={topic ? `What to do with ${topic.topic}` : "Topic, tenant, page or action"}
        aria-label="Open a topic or a place"
        leftSection={<SearchIcon />}
        autoFocus
        onKeyDown={onKeyDown}
      />
      <Spotlight.ActionsList id={LIST}>
        {items.map((item) => (
          <Spotlight.Action
            key={item.key}
            data-key={item.key}
            onClick={pick(item)}
            className={styles.item ?? ""}
            {...(item.why ? { "aria-disabled": true } : {})}
          >
            <item.icon />
            <span className={styles.name}>
              {item.scope && <span className="topic-scope">{item.scope}</span>}
              {item.label}
            </span>
            <span className={item.why ? styles.why : styles.note}>{item.why ?? item.note}</span>
          </Spotlight.Action>
        ))}
        {items.length === 0 && <Spotlight.Empty>{emptiness}</Spotlight.Empty>}
      </Spotlight.ActionsList>
      <div className={styles.keys} aria-hidden="true">
        <span>
          <kbd>Enter</kbd> {topic ? "do" : "open"}
        </span>
        {topic ? (
          <span>
            <kbd>Backspace</kbd> all topics
          </span>
        ) : (
          <span>
            <kbd>Tab</kbd> what to do with a topic
          </span>
        )}
      </div>
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
