import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { environmentQuery } from "../../api/environment";
import { useLive, usePolling } from "../../api/live";
import type { Environment, TopicPage } from "../../api/types";
import { time } from "../../lib/format";
import { Command, Copy } from "../../ui/copy";
import { CheckIcon } from "../../ui/icons";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { TopicLink, useCluster } from "../topic-link";
import { addressesQuery, urlsOfListeners } from "./addresses";
import styles from "./connect.module.css";
import { firstMessageQuery, listOf, look, NOT_LOOKED, rowOf } from "./first-message";
import { LANGUAGES, problemOfTopic } from "./snippets";

const FIRST_TOPIC = "public/default/hello";

/** First steps: the addresses, a program in the reader's language, and whether its message arrived. */
export function Connect() {
  const environment = useQuery(environmentQuery);
  if (environment.data) return <Steps environment={environment.data} />;
  return environment.error ? (
    <ErrorNotice
      error={environment.error}
      title="The addresses could not be read"
      onRetry={environment.refetch}
    />
  ) : (
    <Loading label="Loading the addresses" rows={6} />
  );
}

function Steps({ environment }: { environment: Environment }) {
  const [language, setLanguage] = useState(LANGUAGES[0]);
  const [text, setText] = useState(FIRST_TOPIC);
  const [topic, setTopic] = useState(FIRST_TOPIC);
  const problem = problemOfTopic(text);
  const addresses = useQuery(addressesQuery(useCluster())).data?.rows ?? [];
  if (!language) return null;
  const { broker_url: brokerUrl, http_url: httpUrl, authentication } = environment;
  return (
    <>
      <Panel title="Addresses of this instance">
        <dl className={styles.addresses}>
          <Address label="Clients" value={brokerUrl} />
          {urlsOfListeners(addresses).map(({ listener, url }) => (
            <Address key={`${listener} ${url}`} label={`Clients of listener ${listener}`} value={url} />
          ))}
          <Address label="REST and console" value={httpUrl} />
          <Address label="WebSocket" value={`${httpUrl.replace(/^http/, "ws")}/ws/v2`} />
        </dl>
        {!brokerUrl && (
          <Notice tone="warning">
            <p>No broker is registered: clients cannot connect. Start one first.</p>
          </Notice>
        )}
        {addresses
          .filter(({ problem }) => problem)
          .map(({ broker, url, problem }) => (
            <Notice key={`${broker} ${url}`} tone="warning">
              <p>
                Broker {broker} sends clients to <b>{url}</b>, where the gateway cannot connect:{" "}
                <span lang="en">{problem}</span>. If clients cannot either, correct the broker's{" "}
                <code>advertised_address</code> or <code>advertised_listeners</code>.
              </p>
            </Notice>
          ))}
      </Panel>
      <Panel title="Send and receive a message">
        <div className={styles.send}>
          <TextInput
            label="Topic"
            description="Any name: the topic is created when it is first used"
            value={text}
            error={problem}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => {
              const next = event.currentTarget.value.trim();
              setText(next);
              if (problemOfTopic(next) === null) setTopic(next);
            }}
          />
          <fieldset className={styles.languages}>
            <legend className="visually-hidden">Language</legend>
            {LANGUAGES.map((each) => (
              <Button
                key={each.key}
                variant={each === language ? "filled" : "default"}
                aria-pressed={each === language}
                onClick={() => setLanguage(each)}
              >
                {each.label}
              </Button>
            ))}
          </fieldset>
          {language.install && <Command label="Install" text={language.install} />}
          <Command
            label={language.label}
            what="program"
            note={language.run}
            text={language.program({
              brokerUrl: brokerUrl || "pulsar://BROKER:6650",
              httpUrl,
              topic,
              authentication,
            })}
          />
          <Check key={topic} topic={topic} />
        </div>
      </Panel>
    </>
  );
}

function Address({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd className="mono">
        {value || "none"}
        {value && <Copy value={value} what={`the address for ${label}`} />}
      </dd>
    </div>
  );
}

/** Changes when a message arrives, without any action. */
function Check({ topic }: { topic: string }) {
  const cluster = useCluster();
  const query = firstMessageQuery(cluster, topic);
  const list = useQuery({ ...query, refetchInterval: usePolling() });
  useLive<TopicPage>("topics", { cluster, ...listOf(topic) }, query.queryKey);
  const [watched, setWatched] = useState(NOT_LOOKED);
  const page = list.data;
  const row = page && rowOf(page.rows, topic);
  useEffect(() => {
    if (page) setWatched((before) => look(before, rowOf(page.rows, topic), page.at));
  }, [page, topic]);
  const { seenAt } = watched;
  return (
    <div className={seenAt === null ? styles.waiting : styles.seen}>
      <span role="status">
        {seenAt === null ? (
          <>
            <span className={styles.dot} aria-hidden="true" /> Waiting for the first message
          </>
        ) : (
          <>
            <CheckIcon /> First message seen at {time(seenAt)}
          </>
        )}
      </span>{" "}
      on {row ? <TopicLink topic={row} /> : <b>{topic}</b>}
      {list.error && !page && (
        <span>
          : the topics cannot be read (<span lang="en">{list.error.message}</span>)
        </span>
      )}
    </div>
  );
}
