import { Button } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import { AnalysesIcon } from "../../ui/icons";
import { useLacks } from "../lacking/lacking";
import type { Place } from "./catalogue";

const ButtonLink = createLink(Button<"a">);

/** A link to the analyses that fit a place, or to one of them, filled in. */
export function AnalyseLink({
  place,
  analysis,
  children,
  label,
}: {
  place: Place;
  analysis?: string;
  children: string;
  /** Name for assistive technology, where several links have the same text. */
  label?: string;
}) {
  const { analyses } = useLacks();
  if (analyses) return null;
  const look = { size: "compact-sm", variant: "default", "aria-label": label } as const;
  if (analysis === undefined)
    return (
      <ButtonLink component="a" {...look} leftSection={<AnalysesIcon />} to="/analyses" search={place}>
        {children}
      </ButtonLink>
    );
  return (
    <ButtonLink
      component="a"
      {...look}
      leftSection={<AnalysesIcon />}
      to="/analyses/$template/new"
      params={{ template: analysis }}
      search={place}
    >
      {children}
    </ButtonLink>
  );
}
