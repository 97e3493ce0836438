import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { Crumb, Page, PageHead } from "../../ui/panel";
import { ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { DeployForm } from "./deploy-form";
import { connectorsQuery } from "./model/function-queries";
import { componentOf } from "./model/function-words";

const route = getRouteApi("/c/$cluster/functions/new");

export function DeployPage() {
  useTitle("Deploy a function");
  const { cluster } = route.useParams();
  const { component, connector } = route.useSearch();
  const navigate = useNavigate();
  const found = useQuery(connectorsQuery(cluster));
  return (
    <Page shape="narrow">
      <PageHead
        crumbs={
          <Crumb>
            <Link to="/c/$cluster/functions" params={{ cluster }}>
              Functions
            </Link>
          </Crumb>
        }
        title="Deploy"
      />
      {failureOf(found) && (
        <ErrorNotice
          error={found.error}
          title="The connectors could not be read"
          onRetry={() => found.refetch()}
        />
      )}
      {found.data === undefined ? (
        found.isPending && <Loading label="Loading the form" rows={6} />
      ) : (
        <DeployForm
          cluster={cluster}
          connectors={found.data}
          first={{ component: componentOf(component) ?? "function", connector: connector ?? "" }}
          onDone={(params) =>
            void navigate({ to: "/c/$cluster/functions/$component/$tenant/$namespace/$name", params })
          }
        />
      )}
    </Page>
  );
}
