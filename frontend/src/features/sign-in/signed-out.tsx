import type { Session } from "../../api/session/calls";
import { SetUp } from "./set-up";
import { SignInPage } from "./sign-in-page";

/** The whole page for a browser of a user that the gateway does not know yet. */
export function SignedOut({ session }: { session: Session }) {
  return session.set_up_needed ? <SetUp /> : <SignInPage session={session} />;
}
