import type { ComponentType } from "react";

/** Where a feature's pages begin: an entry of the navigation and of the palette. */
export interface Place {
  label: string;
  icon: ComponentType;
  path: (cluster: string) => string;
  /** Whether a page at this path is part of the place. */
  holds: (pathname: string) => boolean;
}
