/** One form: the answer to a node that waits for a signal. Its address can be sent to the person who decides. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect } from "react"
import type { Json } from "../../../src/core/index.ts"
import { ask, jobPath } from "../api/http.ts"
import { followJobs } from "../api/jobs-stream.ts"
import { may, type Session } from "../api/session.ts"
import type { ListedJob } from "../api/types.ts"
import { clock, elapsed, shortId, timeAgo } from "../model/format.ts"
import { toYaml } from "../model/yaml.ts"
import type { Schema } from "../schema-form/schema.ts"
import { Pill, type Status } from "../shell/icons.tsx"
import { pageHref, usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { YamlText } from "../workflows/yaml-text.tsx"
import SignalForm from "./signal-form.tsx"

interface NodeAnswer {
  readonly id: string
  readonly status: Status
  readonly waiting_on: {
    readonly kind: string
    readonly name?: string
    readonly until?: string | null
    readonly schema?: Schema
  } | null
  readonly output: Json
  readonly attempts: readonly {
    readonly waits: readonly {
      readonly kind: string
      readonly name?: string
      readonly from: string
      readonly until: string | null
      readonly by?: string
    }[]
  }[]
}

interface Graph {
  readonly nodes: readonly { readonly id: string; readonly depends_on: readonly string[] }[]
}

/** Outputs above it that are shown, and their longest text. */
const MOST_SHOWN = 4
const MOST_TEXT = 4000

export default function AnswerPage({ session, jobId }: { session: Session; jobId: string }) {
  const { query } = usePlace()
  const node = query.get("node") ?? ""
  const item = query.get("item")
  const path = jobPath(jobId)
  const queries = useQueryClient()
  const key = ["answer", jobId]
  const job = useQuery({
    queryKey: [...key, "job"],
    queryFn: ({ signal }) => ask<ListedJob>(path, { signal }),
  })
  const found = useQuery({
    queryKey: [...key, node, item],
    queryFn: ({ signal }) =>
      ask<NodeAnswer>(`${path}/nodes/${encodeURIComponent(node)}`, { query: { item }, signal }),
  })
  useTitle(`Answer ${node}`)
  const text = JSON.stringify(key)
  useEffect(
    () =>
      followJobs({
        onJob: (changed, isChange) =>
          isChange &&
          changed.job_id === jobId &&
          void queries.invalidateQueries({ queryKey: JSON.parse(text) as string[] }),
        onConnection: () => {},
      }),
    [queries, jobId, text],
  )
  const failed = [job, found].find(({ error }) => error !== null)
  return (
    <Shell session={session} page="now">
      <Main name="answer">
        <div className="phead">
          <h1>{answerTitle(found.data, node)}</h1>
        </div>
        {failed !== undefined ? (
          <section className="panel">
            <Failed what={`Node ${node}`} error={failed.error} onRetry={() => void found.refetch()} />
          </section>
        ) : job.data === undefined || found.data === undefined ? (
          <section className="panel">
            <Loading what={`node ${node}`} />
          </section>
        ) : (
          <Question
            job={job.data}
            found={found.data}
            item={item}
            canAnswer={may(session, "submit")}
            onSent={() => void queries.invalidateQueries({ queryKey: key })}
          />
        )}
      </Main>
    </Shell>
  )
}

function answerTitle(found: NodeAnswer | undefined, node: string): string {
  const title = found?.waiting_on?.schema?.title
  return typeof title === "string" ? title : `Answer ${node}`
}

interface QuestionProps {
  readonly job: ListedJob
  readonly found: NodeAnswer
  readonly item: string | null
  readonly canAnswer: boolean
  readonly onSent: () => void
}

function Question({ job, found, item, canAnswer, onSent }: QuestionProps) {
  const { waiting_on: waiting, status, id } = found
  const wait = found.attempts.at(-1)?.waits.findLast(({ kind }) => kind === "signal")
  const isOpen = waiting?.kind === "signal" && waiting.name !== undefined
  return (
    <>
      <section className="panel pad" aria-label="What waits">
        <p className="row wrapped">
          <Pill status={status} />
          <a
            className="link"
            href={pageHref(`/jobs/${job.job_id}`, { node: id, ...(item !== null && { tab: "Items", item }) })}
          >
            {job.workflow} <span className="mono">{shortId(job.job_id)}</span>
          </a>
          <span className="dim">
            node {id}
            {item !== null && `, item ${item}`}
          </span>
        </p>
        {wait !== undefined && (
          <p className="mid" data-answered={wait.until === null ? undefined : (wait.by ?? "unknown")}>
            {wait.until === null ? (
              <>
                Waits for signal <b>{wait.name}</b> since {clock(Date.parse(wait.from))}
                {typeof waiting?.until === "string" &&
                  `; expires at ${clock(Date.parse(waiting.until))}, in ${elapsed(Date.parse(waiting.until) - Date.now())}`}
                .
              </>
            ) : status === "COMPLETED" ? (
              <span title={timeAgo(Date.parse(wait.until))}>
                {wait.by === undefined ? "Went on" : <>Answered by {wait.by}</>} at{" "}
                {clock(Date.parse(wait.until))}.
              </span>
            ) : (
              `The wait ended at ${clock(Date.parse(wait.until))}.`
            )}
          </p>
        )}
        {isOpen && canAnswer && (
          <SignalForm
            jobId={job.job_id}
            name={waiting.name!}
            schema={waiting.schema ?? null}
            isItem={item !== null}
            onSent={onSent}
          />
        )}
        {isOpen && !canAnswer && (
          <p className="dim">Your token may not answer: this needs the scope submit.</p>
        )}
        {!isOpen && wait === undefined && (
          <Empty
            title={waiting?.kind === "items" ? "Its items wait" : "This node does not wait for a signal"}
          >
            <p>
              {waiting?.kind === "items" ? (
                <a className="link" href={pageHref(`/jobs/${job.job_id}`, { node: id, tab: "Items" })}>
                  Choose one of them
                </a>
              ) : (
                "It may not have begun, or its job has ended."
              )}
            </p>
          </Empty>
        )}
      </section>
      {status === "COMPLETED" && wait !== undefined && (
        <section className="panel" aria-label="The answer">
          <header>
            <h2>The answer</h2>
          </header>
          <YamlText text={shortened(found.output)} label="The answer" />
        </section>
      )}
      <Above job={job} node={id} />
    </>
  )
}

/** What the nodes before it gave: what the decision is about. */
function Above({ job, node }: { job: ListedJob; node: string }) {
  const path = `/jobs/${job.job_id}`
  const { data } = useQuery({
    queryKey: ["answer-above", job.job_id, node],
    queryFn: async ({ signal }) => {
      const { nodes } = await ask<Graph>(`${path}/compiled-graph`, { signal })
      const above = nodes.find(({ id }) => id === node)?.depends_on.slice(0, MOST_SHOWN) ?? []
      return Promise.all(
        above.map(id => ask<NodeAnswer>(`${path}/nodes/${encodeURIComponent(id)}`, { signal })),
      )
    },
  })
  return (data ?? []).map(({ id, output }) => (
    <section key={id} className="panel" aria-label={`Output of ${id}`}>
      <header>
        <h2>Output of {id}</h2>
      </header>
      <YamlText text={shortened(output)} label={`Output of ${id}`} />
    </section>
  ))
}

function shortened(value: Json): string {
  const text = toYaml(value)
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…\n` : text
}
