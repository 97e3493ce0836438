import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { SavedView } from "../../api/types";
import { BookmarkIcon } from "../../ui/icons";
import { PathLink } from "../../ui/path-link";
import {
  deleteView,
  renameView,
  saveView,
  type ViewedList,
  viewPath,
  viewsOf,
  viewsQuery,
} from "./list-queries";
import styles from "./lists.module.css";
import { Menu } from "./menu";

const NAME_MAX = 120;

/** Filters, order and columns under a name: saved on the server, opened here or from the palette. */
export function ViewsMenu({
  list,
  cluster,
  query,
}: {
  list: ViewedList;
  cluster: string;
  query: Record<string, string>;
}) {
  return (
    <Menu label="Views" icon={<BookmarkIcon size={14} />}>
      {(close) => <Views list={list} cluster={cluster} query={query} onOpen={close} />}
    </Menu>
  );
}

function Views({
  list,
  cluster,
  query,
  onOpen,
}: {
  list: ViewedList;
  cluster: string;
  query: Record<string, string>;
  onOpen: () => void;
}) {
  const views = useQuery({ ...viewsQuery, select: (all) => viewsOf(list, all) });
  const client = useQueryClient();
  const refresh = () => client.invalidateQueries({ queryKey: viewsQuery.queryKey });
  const save = useMutation({ mutationFn: (name: string) => saveView(list, name, query), onSuccess: refresh });
  return (
    <>
      <NameForm
        label="Save what is shown now as a view"
        verb="Save view"
        refusal={save.error?.message}
        onName={(name) => save.mutateAsync(name)}
      />
      {views.isError ? (
        <p className={styles.hint} role="alert">
          The saved views could not be read: <span lang="en">{views.error.message}</span>
        </p>
      ) : views.data?.length === 0 ? (
        <p className={styles.hint}>
          No view is saved yet. A view keeps the filters, the order and the columns.
        </p>
      ) : (
        <ul className={styles.views} aria-label="Saved views">
          {views.data?.map((view) => (
            <View key={view.id} view={view} cluster={cluster} onChanged={refresh} onOpen={onOpen} />
          ))}
        </ul>
      )}
    </>
  );
}

/** A line that opens a view and can rename or, after a confirmation, delete it. */
function View({
  view,
  cluster,
  onChanged,
  onOpen,
}: {
  view: SavedView;
  cluster: string;
  onChanged: () => Promise<void>;
  onOpen: () => void;
}) {
  const [doing, setDoing] = useState<"rename" | "delete" | null>(null);
  const rename = useMutation({
    mutationFn: (name: string) => renameView(view.id, name),
    onSuccess: onChanged,
  });
  const remove = useMutation({ mutationFn: () => deleteView(view.id), onSuccess: onChanged });
  if (doing === "rename")
    return (
      <li>
        <NameForm
          label={`New name of ${view.name}`}
          verb="Rename"
          name={view.name}
          refusal={rename.error?.message}
          onName={async (name) => {
            await rename.mutateAsync(name);
            setDoing(null);
          }}
          onCancel={() => setDoing(null)}
        />
      </li>
    );
  return (
    <li className={styles.view}>
      <PathLink path={viewPath(cluster, view)} className={styles.viewName} onFollow={onOpen}>
        {view.name}
      </PathLink>
      {doing === "delete" ? (
        <>
          {remove.error && (
            <span role="alert" lang="en">
              {remove.error.message}
            </span>
          )}
          <Button size="compact-xs" color="red" autoFocus onClick={() => remove.mutate()}>
            Delete it
          </Button>
          <Button size="compact-xs" variant="default" onClick={() => setDoing(null)}>
            Cancel
          </Button>
        </>
      ) : (
        <>
          <Button
            size="compact-xs"
            variant="subtle"
            aria-label={`Rename ${view.name}`}
            onClick={() => setDoing("rename")}
          >
            Rename
          </Button>
          <Button
            size="compact-xs"
            variant="subtle"
            aria-label={`Delete ${view.name}`}
            onClick={() => setDoing("delete")}
          >
            Delete
          </Button>
        </>
      )}
    </li>
  );
}

function NameForm({
  label,
  verb,
  name = "",
  refusal,
  onName,
  onCancel,
}: {
  label: string;
  verb: string;
  name?: string;
  refusal: string | undefined;
  onName: (name: string) => Promise<unknown>;
  onCancel?: () => void;
}) {
  const [text, setText] = useState(name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() === "") return;
    onName(text.trim()).then(
      () => setText(""),
      () => undefined, // the refusal is shown
    );
  };
  return (
    <form onSubmit={submit} className={styles.nameForm}>
      <TextInput
        size="xs"
        label={label}
        value={text}
        maxLength={NAME_MAX}
        error={refusal}
        data-autofocus
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" size="xs" disabled={text.trim() === ""}>
        {verb}
      </Button>
      {onCancel && (
        <Button size="xs" variant="default" onClick={onCancel}>
          Cancel
        </Button>
      )}
    </form>
  );
}
