import { Connect } from "../../shared/connect/connect";
import { Page, PageHead } from "../../ui/panel";
import { useTitle } from "../../ui/use-title";

export function ConnectPage() {
  useTitle("Connect");
  return (
    <Page shape="narrow">
      <PageHead title="Connect a client" />
      <Connect />
    </Page>
  );
}
