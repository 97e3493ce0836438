import { Link } from "@tanstack/react-router";
import { visible } from "../../lib/visible";

/** The name of a role, as a link to its page. */
export function RoleLink({ cluster, role }: { cluster: string; role: string }) {
  return (
    <Link to="/c/$cluster/roles/$role" params={{ cluster, role }} className="topic-link" title={role}>
      {visible(role)}
    </Link>
  );
}
