import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { createLink } from "@tanstack/react-router";
import { AnalysesIcon } from "../../ui/icons";
import { offersQuery, type Place } from "./catalogue";

const ButtonLink = createLink(Button<"a">);

/** A link to the analyses that fit a place, or to one of them, filled in. Nothing where the catalogue lacks it. */
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
  const catalogue = useQuery({ ...offersQuery, enabled: analysis !== undefined });
  const look = { size: "compact-sm", variant: "default", "aria-label": label } as const;
  if (analysis === undefined)
    return (
      <ButtonLink component="a" {...look} leftSection={<AnalysesIcon />} to="/analyses" search={place}>
        {children}
      </ButtonLink>
    );
  if (!catalogue.data?.some(({ name }) => name === analysis)) return null;
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
