import { queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { answerOf, api, given } from "../../api/client";
import { useSession } from "../../api/session/session";

/** A place whose operations are judged; without a name the cluster. */
export interface Place {
  tenant?: string;
  /** Without the tenant. */
  namespace?: string;
  /** Full name. */
  topic?: string;
  subscription?: string;
}

/** The missing right and who can give it; null while an operation is allowed, or not known to be refused. */
export type WhyNot = (operation: string) => string | null;

const REFRESH_MS = 30_000;

export function mayQuery(cluster: string, place: Place) {
  return queryOptions({
    queryKey: ["may", cluster, place],
    queryFn: async ({ signal }) =>
      (
        await answerOf(
          api.GET("/api/v1/clusters/{cluster}/may", {
            params: { path: { cluster }, query: given(place) },
            signal,
          }),
        )
      ).actions,
    staleTime: REFRESH_MS,
  });
}

/**
 * The operations at a place that are refused to the user, by their ids in the API's document. The gateway is asked only
 * where authorization is on; until it answers all operations count as allowed: it judges each call in any case.
 */
export function useWhyNot(cluster: string, place: Place, isNeeded = true): WhyNot {
  const { session } = useSession();
  const isJudged = Boolean(session?.authorization && session.person);
  const { data } = useQuery({ ...mayQuery(cluster, place), enabled: isNeeded && isJudged });
  return (operation) => (isJudged ? refusal(data, operation) : null);
}

function refusal(
  data: Record<string, { allowed: boolean; why: string }> | undefined,
  operation: string,
): string | null {
  const answer = data?.[operation];
  return answer && !answer.allowed ? answer.why || "It is not allowed." : null;
}

/** Whether the user reads what is of all tenants: where authorization is off, every user does. */
export function useReadsEverything(): boolean {
  const { session } = useSession();
  return !session?.authorization || session.person?.reads_everything !== false;
}

/** Refused operations at several places, see `useWhyNot`. */
export function useWhyNots(cluster: string, places: readonly Place[]): WhyNot[] {
  const { session } = useSession();
  const isJudged = Boolean(session?.authorization && session.person);
  const answers = useQueries({
    queries: places.map((place) => ({ ...mayQuery(cluster, place), enabled: isJudged })),
  });
  return answers.map(
    ({ data }) =>
      (operation) =>
        isJudged ? refusal(data, operation) : null,
  );
}

/**
 * Whether the user may read something of the whole cluster: to others the gateway shows their own part, where an empty
 * list does not prove that there is nothing. False until the gateway answers.
 */
export function useMayRead(
  cluster: string,
  operation: "listBrokers" | "listBookies" | "getHistory",
): boolean {
  const { session } = useSession();
  const isJudged = Boolean(session?.authorization && session.person);
  const { data } = useQuery({ ...mayQuery(cluster, {}), enabled: isJudged });
  return !isJudged || data?.[operation]?.allowed === true;
}
