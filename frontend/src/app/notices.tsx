import { Notifications } from "@mantine/notifications";

/** Short notes at the corner of the page. They are no part of the first load: none is shown before somebody acts. */
export default function Notices() {
  return <Notifications position="bottom-right" autoClose={6000} />;
}
