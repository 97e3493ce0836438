import { useState } from "react";
import { chooseZone, ZONE } from "../lib/zone";

/** The zone of all times: the browser's, UTC or another. The list is long, so it is filled when it is first used. */
export function TimeZone() {
  const [isOpen, setOpen] = useState(false);
  const own = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = new Set([
    "UTC",
    ...(ZONE ? [ZONE] : []),
    ...(isOpen ? Intl.supportedValuesOf("timeZone") : []),
  ]);
  return (
    <select
      aria-label="Time zone"
      value={ZONE ?? ""}
      onFocus={() => setOpen(true)}
      onChange={(event) => chooseZone(event.currentTarget.value)}
    >
      <option value="">{`browser: ${own}`}</option>
      {[...zones].map((zone) => (
        <option key={zone}>{zone}</option>
      ))}
    </select>
  );
}
