import { Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { environmentQuery } from "../../api/environment";
import styles from "./policies.module.css";

/** The clusters of a list. That of this page can be taken out only after a step of its own. */
export function ClusterChoice({
  label,
  name,
  chosen,
  problem,
  onChange,
}: {
  label: string;
  name: string;
  chosen: readonly string[];
  problem: string | undefined;
  onChange: (chosen: string[]) => void;
}) {
  const environment = useQuery(environmentQuery).data;
  const [mayLeave, setMayLeave] = useState(false);
  const here = environment?.cluster;
  const names = [...new Set([...(environment?.clusters ?? []), ...chosen])].sort();
  return (
    <>
      <Checkbox.Group label={label} error={problem} value={[...chosen]} onChange={onChange}>
        <div className={styles.choices}>
          {names.map((cluster) => (
            <Checkbox
              key={cluster}
              name={name}
              value={cluster}
              label={cluster === here ? `${cluster}, this cluster` : cluster}
              disabled={cluster === here && chosen.includes(cluster) && !mayLeave}
            />
          ))}
        </div>
      </Checkbox.Group>
      <Checkbox
        color="red"
        label="Let this cluster leave: it then refuses the topics"
        checked={mayLeave}
        onChange={(event) => setMayLeave(event.currentTarget.checked)}
      />
    </>
  );
}
