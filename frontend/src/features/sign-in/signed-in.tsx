import { useRouter, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";
import { Page } from "../../ui/panel";
import { Loading } from "../../ui/states";
import { nextPlace } from "./next-place";

/** The page of a sign-in for one who is signed in: goes on to where the person wanted to be. */
export function SignedIn() {
  const { next } = useSearch({ strict: false });
  const { history } = useRouter();
  useEffect(() => history.replace(nextPlace(next)), [history, next]);
  return (
    <Page>
      <Loading label="Opening the page" rows={6} />
    </Page>
  );
}
