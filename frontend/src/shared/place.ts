import type { ComponentType } from "react";
import type { Person } from "../api/session/calls";

/** The first page of a feature: an entry of the navigation and of the palette. */
export interface Place {
  label: string;
  icon: ComponentType;
  /** `person`: the user, where the place has another first page for some. */
  path: (cluster: string, person?: Person | null) => string;
  /** Whether a page at this path is part of the place. */
  holds: (pathname: string) => boolean;
  /** Whom it is offered to; without it everybody. */
  isFor?: (person: Person) => boolean;
  /** Whether it is offered where sign-in is off, too. */
  isForAnyone?: boolean;
}

/** Whether a place is offered to the user; `person` is null where sign-in is off. */
export function isOffered({ isFor, isForAnyone = false }: Place, person: Person | null): boolean {
  if (isFor === undefined || person === null) return isFor === undefined || isForAnyone;
  return isFor(person);
}
