import { Button, type ButtonProps, Tooltip } from "@mantine/core";
import type { MouseEvent, ReactNode } from "react";

/**
 * A button of an action that may be refused: then it stays in the order of focus, so that its reason can be read by
 * keyboard, and does nothing.
 */
export function ActionButton({
  why,
  onClick,
  children,
  ...rest
}: ButtonProps & {
  /** The missing right and who can give it; null while the action is allowed. */
  why: string | null;
  onClick?: () => void;
  children: ReactNode;
  type?: "submit";
  "aria-label"?: string;
}) {
  const isRefused = why !== null && !rest.disabled;
  return (
    <Tooltip
      label={why}
      disabled={!isRefused}
      multiline
      maw={320}
      events={{ hover: true, focus: true, touch: true }}
    >
      <Button
        {...rest}
        {...(isRefused ? { "data-disabled": true, "aria-disabled": true } : {})}
        onClick={(event: MouseEvent) => (isRefused ? event.preventDefault() : onClick?.())}
      >
        {children}
      </Button>
    </Tooltip>
  );
}
