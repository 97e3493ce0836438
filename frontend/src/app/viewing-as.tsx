import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useSession, viewAs } from "../api/session/session";
import { EyeIcon } from "../ui/icons";
import styles from "./open-to-anyone.module.css";

/** A line over the whole console while a superuser sees it as another role does. */
export function ViewingAs() {
  const person = useSession().session?.person;
  const stop = useMutation({ mutationFn: () => viewAs(null) });
  if (!person?.viewing_as) return null;
  return (
    <div className={`${styles.open} ${styles.viewing}`} role="note">
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
