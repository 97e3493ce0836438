import { Notice } from "../../ui/states";

/** The notice in place of a page that the cluster lacks. */
export function NotHere({ why }: { why: string }) {
  return (
    <Notice tone="info">
      <p>
        Not known on this cluster. <span lang="en">{why}.</span>
      </p>
    </Notice>
  );
}
