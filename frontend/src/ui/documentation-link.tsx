import { ActionIcon, Tooltip } from "@mantine/core";
import { DocumentationIcon } from "./icons";

/** The gateway serves the documentation of its own version here. */
export const DOCUMENTATION = "/docs/";

/** Another tab: the console keeps its place and its connection. */
export function DocumentationLink() {
  return (
    <Tooltip label="Documentation">
      <ActionIcon component="a" href={DOCUMENTATION} target="_blank" aria-label="Documentation">
        <DocumentationIcon />
      </ActionIcon>
    </Tooltip>
  );
}
