import { useRouter } from "@tanstack/react-router";
import type { MouseEvent, ReactNode } from "react";

/** A link to a path of the console that the server made: it is followed as it is, without a reload. */
export function PathLink({
  path,
  label,
  children,
  onFollow,
  ...rest
}: {
  path: string;
  label?: string; // when the children are pieces of a name
  children: ReactNode;
  className?: string | undefined;
  lang?: string;
  title?: string;
  tabIndex?: number;
  onFollow?: () => void;
}) {
  const router = useRouter();
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    router.history.push(path);
    onFollow?.();
  };
  return (
    <a href={path} onClick={follow} aria-label={label} {...rest}>
      {children}
    </a>
  );
}
