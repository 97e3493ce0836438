import { count, rate } from "../../lib/format";
import { Fact } from "../../ui/fact";
import { Figure, type Source } from "../figure";

interface Traffic extends Source {
  producers: number | null;
  consumers: number | null;
  msg_rate_in: number | null;
  msg_rate_out: number | null;
}

/** The clients and the traffic of the object to change. */
export function TrafficFacts({ of }: { of: Traffic }) {
  return (
    <>
      <Fact label="Clients">
        <Figure of={of} value={of.producers} text={count} /> {of.producers === 1 ? "producer" : "producers"},{" "}
        <Figure of={of} value={of.consumers} text={count} /> {of.consumers === 1 ? "consumer" : "consumers"}
      </Fact>
      <Fact label="Messages per second">
        <Figure of={of} value={of.msg_rate_in} text={rate} /> in,{" "}
        <Figure of={of} value={of.msg_rate_out} text={rate} /> out
      </Fact>
    </>
  );
}
