import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { Person } from "../../api/session/calls";
import { viewAs } from "../../api/session/session";
import { EyeIcon } from "../../shared/people/icons";
import styles from "./account.module.css";

/** A line over the whole console while a superuser sees it as another role does. */
export function ViewingAs({ person }: { person: Person }) {
  const stop = useMutation({ mutationFn: () => viewAs(null) });
  return (
    <div className={styles.viewing} role="note">
      <EyeIcon />
      <span>
        Viewing as <b>{person.viewing_as}</b>. Nothing can be changed.
        {stop.error && ` It could not be stopped: ${stop.error.message}`}
      </span>
      <Button size="compact-xs" variant="default" loading={stop.isPending} onClick={() => stop.mutate()}>
        Stop
      </Button>
    </div>
  );
}
