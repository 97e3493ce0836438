import { Button } from "@mantine/core";
import type { Session } from "../../api/session/calls";
import { signIn } from "../../api/session/session";
import { Frame } from "./frame";
import { nextPlace } from "./next-place";
import styles from "./sign-in.module.css";
import { Providers, SignInForm } from "./sign-in-form";

export function SignInPage({ session }: { session: Session }) {
  const { password_sign_in: byPassword, providers } = session;
  const search = new URLSearchParams(location.search);
  const isHere = location.pathname === "/sign-in";
  const next = isHere ? nextPlace(search.get("next") ?? undefined) : nextPlace(placeNow());
  return (
    <Frame
      title="Sign in to Magnetar"
      note={location.host}
      below={<OtherWays isOpen={!byPassword && providers.length === 0} />}
    >
      {byPassword && <SignInForm onSubmit={signIn} />}
      {byPassword && providers.length > 0 && <span className={styles.or}>or</span>}
      <Providers providers={providers} next={next} />
      {!byPassword && providers.length === 0 && (
        <p>This instance identifies its users by client certificates. This browser sent none.</p>
      )}
    </Frame>
  );
}

function placeNow(): string {
  return location.pathname + location.search + location.hash;
}

/** The gateway serves browsers with a certificate without a form. */
function OtherWays({ isOpen }: { isOpen: boolean }) {
  return (
    <details className={styles.other} open={isOpen}>
      <summary>Use a client certificate</summary>
      <div>
        <p>
          Import a client certificate that the instance trusts into the browser, then open the console by
          HTTPS. The folder <code>secure</code> of an instance started with <code>--secure</code> has one for
          its superuser:
        </p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
        <pre tabIndex={0} role="region" aria-label="openssl command">
          openssl pkcs12 -export -in superuser.pem -inkey superuser.key -out superuser.p12
        </pre>
        <Button variant="default" onClick={() => location.reload()}>
          Try again
        </Button>
      </div>
    </details>
  );
}
