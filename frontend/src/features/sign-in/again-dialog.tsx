import { Button } from "@mantine/core";
import type { Person, Session } from "../../api/session/calls";
import { signIn, session as watch } from "../../api/session/session";
import { Dialog } from "../../ui/dialog";
import styles from "./sign-in.module.css";
import { Providers, SignInForm } from "./sign-in-form";

/** Covers the page of a person whose session has ended, with what was typed there, until the person is back. */
export function SignInAgain({ session, person }: { session: Session; person: Person }) {
  return (
    <Dialog
      title="Your session has ended"
      onClose={() => undefined}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      size="sm"
      zIndex={1_000}
      overlayProps={{ backgroundOpacity: 0.7, blur: 10 }}
    >
      <div className={styles.form}>
        <p className={styles.dim}>
          {session.password_sign_in
            ? "Sign in again to continue where you were; what you typed is kept."
            : "Sign in again to return to this page."}
        </p>
        {session.password_sign_in && <SignInForm name={person.name} onSubmit={signIn} />}
        {session.password_sign_in && session.providers.length > 0 && <span className={styles.or}>or</span>}
        <Providers providers={session.providers} next={location.pathname + location.search + location.hash} />
        <Button variant="subtle" onClick={() => watch.leave()}>
          Sign in as another person
        </Button>
      </div>
    </Dialog>
  );
}
