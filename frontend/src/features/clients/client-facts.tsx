import { byteRate, dateTime, rate } from "../../lib/format";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { Since } from "../../ui/since";
import type { ClientDetail } from "./client-queries";
import { clientName } from "./client-words";

export function Facts({ of }: { of: ClientDetail }) {
  return (
    <dl className={styles.facts}>
      <Fact label="Library">
        {clientName(of)}
        {of.language && <small>{of.language}</small>}
      </Fact>
      {of.application && <Fact label="Application">{of.application}</Fact>}
      <Fact label="Role">{of.role ?? "none: authentication is off"}</Fact>
      <Fact label="Proxy">{of.proxy ?? "none"}</Fact>
      <Fact label="Broker">
        {of.broker}
        {of.listener && <small>listener {of.listener}</small>}
      </Fact>
      <Fact label="Connected">
        <Since at={of.since} />
        <small>since {dateTime(of.since)}</small>
      </Fact>
      <Fact label="In">
        {rate(of.msg_rate_in)} messages/s<small>{byteRate(of.bytes_rate_in)}</small>
      </Fact>
      <Fact label="Out">
        {rate(of.msg_rate_out)} messages/s<small>{byteRate(of.bytes_rate_out)}</small>
      </Fact>
    </dl>
  );
}
