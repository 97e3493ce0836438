import { Button } from "@mantine/core";
import { Mark } from "../ui/icons";
import { Page, PageHead, Panel } from "../ui/panel";
import { useTitle } from "../ui/use-title";
import styles from "./shell.module.css";

/** The whole page for a browser that the gateway does not identify. */
export function CredentialsNeeded() {
  useTitle("Credentials needed");
  return (
    <div className={styles.alone}>
      <header className={styles.header}>
        <span className={styles.brand}>
          <Mark />
          <span>Magnetar</span>
        </span>
      </header>
      <main className={styles.main}>
        <Page>
          <PageHead title="Credentials needed" />
          <Panel title="This instance identifies its users">
            <p>
              The gateway answered 401: this browser sent no credentials, or credentials that are no longer
              valid.
            </p>
            <p>
              Import a client certificate that the instance trusts into the browser, then open the console by
              HTTPS. The folder <code>secure</code> of an instance started with <code>--secure</code> has one
              for its superuser:
            </p>
            <pre>openssl pkcs12 -export -in superuser.pem -inkey superuser.key -out superuser.p12</pre>
            <p>Sign-in by name and password is not built yet.</p>
          </Panel>
          <div>
            <Button onClick={() => location.reload()}>Try again</Button>
          </div>
        </Page>
      </main>
    </div>
  );
}
