import { Notifications } from "@mantine/notifications";

/** Short notes at the corner of the page. They are no part of the first load: each follows an action of the user. */
export default function Notices() {
  return <Notifications position="bottom-right" autoClose={6000} />;
}
