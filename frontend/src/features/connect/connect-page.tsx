import { Connect } from "../../shared/connect/connect";
import { DOCUMENTATION } from "../../ui/documentation-link";
import { Page, PageHead } from "../../ui/panel";
import { useTitle } from "../../ui/use-title";

export function ConnectPage() {
  useTitle("Connect");
  return (
    <Page shape="narrow">
      <PageHead title="Connect a client" />
      <Connect />
      <p>
        Other clients, and the next steps, are in the{" "}
        <a href={DOCUMENTATION} target="_blank" rel="noopener">
          documentation
        </a>
        .
      </p>
    </Page>
  );
}
