import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { failureOf } from "../../lib/errors";
import { Crumb, Page, PageHead } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { DeployForm } from "./deploy-form";
import { codeQuery, connectorsQuery, type FunctionPlace, functionQuery } from "./model/function-queries";
import { componentOf, nounOf } from "./model/function-words";

const ONE = "/c/$cluster/functions/$component/$tenant/$namespace/$name";
const route = getRouteApi("/c/$cluster/functions/$component/$tenant/$namespace/$name/update");

export function UpdatePage() {
  const params = route.useParams();
  const component = componentOf(params.component);
  useTitle(`Update ${params.name}`);
  return (
    <Page shape="narrow">
      <PageHead
        crumbs={
          <>
            <Crumb>
              <Link to="/c/$cluster/functions" params={params}>
                Functions
              </Link>
            </Crumb>
            <Crumb>
              <Link to={ONE} params={params}>
                {params.name}
              </Link>
            </Crumb>
          </>
        }
        title="Update"
      />
      {component === undefined ? (
        <Empty title={`There is no kind ${params.component}`}>It is function, source or sink.</Empty>
      ) : (
        <Form place={{ ...params, component }} />
      )}
    </Page>
  );
}

function Form({ place }: { place: FunctionPlace }) {
  const navigate = useNavigate();
  const connectors = useQuery(connectorsQuery(place.cluster));
  // Read once: what is being filled in must not change below it.
  const deployed = useQuery({ ...functionQuery(place), refetchInterval: false });
  const isOwnCode = deployed.data !== undefined && deployed.data.function.connector === "";
  // Code that cannot be read can be replaced nevertheless.
  const code = useQuery({ ...codeQuery(place), enabled: isOwnCode });
  const error = failureOf(deployed) ?? failureOf(connectors);
  if (error)
    return (
      <ErrorNotice
        error={error}
        title={`The ${nounOf(place.component)} could not be read`}
        onRetry={() => void Promise.all([deployed.refetch(), connectors.refetch()])}
      />
    );
  if (deployed.data === undefined || connectors.data === undefined || (isOwnCode && code.isPending))
    return <Loading label="Loading the form" rows={6} />;
  return (
    <DeployForm
      cluster={place.cluster}
      connectors={connectors.data}
      place={place}
      config={deployed.data.config}
      deployed={code.data?.text ?? null}
      onDone={(params) => void navigate({ to: ONE, params })}
    />
  );
}
