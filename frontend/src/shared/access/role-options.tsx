import { useQuery } from "@tanstack/react-query";
import { useCluster } from "../topic-link";
import { rolesQuery } from "./roles-query";

/** The known roles as proposals of the text fields whose `list` is this id. Any other text may be given. */
export function RoleOptions({ id }: { id: string }) {
  const roles = useQuery(rolesQuery(useCluster(), "")).data;
  return (
    <datalist id={id}>
      {roles?.rows.map(({ role }) => (
        <option key={role} value={role} />
      ))}
    </datalist>
  );
}
