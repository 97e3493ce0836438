import { Notice } from "../../ui/states";

/** In place of what a cluster does not have. */
export function NotHere({ why }: { why: string }) {
  return (
    <Notice tone="info">
      <p>Not known on this cluster. {why}.</p>
    </Notice>
  );
}
