/**
 * A fork before it is made: the graph shows what is reused and what runs, the panel what is changed, why each node runs, what that
 * usually takes, and which effects must be confirmed. The address has the nodes that run again and the version.
 */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query"
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react"
import type { CompiledGraph, JobStatus } from "../../../src/core/index.ts"
import { ApiError, ask, jobPath } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { count, shortId } from "../model/format.ts"
import { useLayout } from "../model/layout/layouts.ts"
import { Icon, Pill } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, go, pageHref, usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { NARROW, useMedia } from "../shell/theme.ts"
import type { EditedDefinition } from "../workflows/editor.tsx"
import { workflowPath } from "../workflows/types.ts"
import {
  buildForkRequest,
  collectVerdicts,
  type Draft,
  emptyDraft,
  type ForkKind,
  kindTexts,
  type OriginNode,
  type Preview,
} from "./draft.ts"
import { ForkGraph, ForkList, kindIcons } from "./graph.tsx"
import { definitionQuery } from "./node-section.tsx"
import { ForkPanel } from "./panel.tsx"

const DefinitionOfFork = lazy(() =>
  import("../workflows/editor.tsx").then(({ DefinitionOfFork }) => ({ default: DefinitionOfFork })),
)

export interface OriginJob {
  readonly job_id: string
  readonly workflow: string
  /** null: a changed definition, which is not a stored version. */
  readonly workflow_version: number | null
  readonly status: JobStatus
  readonly error: { readonly code: string; readonly message: string; readonly node?: string } | null
}

export default function ForkPage({ jobId, session }: { jobId: string; session: Session }) {
  const job = useQuery({
    queryKey: ["fork", jobId, "job"],
    queryFn: ({ signal }) => ask<OriginJob>(jobPath(jobId), { signal }),
    staleTime: 0,
  })
  useTitle(`Fork ${job.data?.workflow ?? shortId(jobId)}`)
  return (
    <Shell session={session} page="jobs">
      {job.data === undefined || !may(session, "manage") ? (
        <Main>
          <div className="panel">
            {!may(session, "manage") ? (
              <Empty title="Your token may not fork jobs">
                <p>A fork needs the scope manage; you have {session.scopes.join(", ")}.</p>
              </Empty>
            ) : job.error === null ? (
              <Loading what="the job" rows={8} />
            ) : job.error instanceof ApiError && job.error.status === 404 ? (
              <Empty title={`Job ${shortId(jobId)} not found`}>
                <p>It does not exist, was removed, or belongs to another owner.</p>
              </Empty>
            ) : (
              <Failed what="The job" error={job.error} onRetry={() => void job.refetch()} />
            )}
          </div>
        </Main>
      ) : (
        <ForkView job={job.data} />
      )}
    </Shell>
  )
}

function ForkView({ job }: { job: OriginJob }) {
  const { job_id: jobId, workflow } = job
  const path = jobPath(jobId)
  const { query } = usePlace()
  const from = query.getAll("from")
  const version = query.get("version") === null ? null : Number(query.get("version"))
  const [rest, setRest] = useState(emptyDraft)
  const [edited, setEdited] = useState<EditedDefinition | null>(null)
  const [isText, setText] = useState(false)
  // While the text has a problem, the last one without stays.
  const changed = useLast(edited)
  const draft: Draft = { ...rest, from, version, definition: changed?.definition }
  const body = buildForkRequest(draft, workflow)
  const preview = useQuery({
    queryKey: ["fork", jobId, "preview", JSON.stringify(body)],
    queryFn: ({ signal }) =>
      ask<Preview>(`${path}/fork`, { method: "POST", body: { ...body, dry_run: true }, signal }),
    placeholderData: keepPreviousData,
    staleTime: 0,
  })
  const origin = useOrigin(path)
  const stored = useQuery({
    queryKey: ["fork", jobId, "graph", version],
    queryFn: ({ signal }) =>
      ask<CompiledGraph>(
        version === null ? `${path}/compiled-graph` : `${workflowPath(workflow)}/versions/${version}/graph`,
        { signal },
      ),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const shown = useLayout(changed?.graph ?? stored.data)
  const graph = shown?.graph
  const isNarrow = useMedia(NARROW)
  const verdicts = useMemo(
    () => (preview.data === undefined ? new Map() : collectVerdicts(preview.data, origin, rest.overrides)),
    [preview.data, origin, rest.overrides],
  )
  const selected = graph?.nodes.findIndex(({ id }) => id === query.get("node")) ?? -1
  const select = (node: number) => changeQuery({ node: graph!.nodes[node]!.id }, { replace: true })
  const toggle = (node: string) =>
    changeQuery({ from: from.includes(node) ? from.filter(one => one !== node) : [...from, node] })
  useKeys({
    f: () => selected !== -1 && toggle(graph!.nodes[selected]!.id),
    Escape: () =>
      selected === -1 ? go(pageHref(`/jobs/${jobId}`)) : changeQuery({ node: null }, { replace: true }),
  })
  const { fork, isBusy, error } = useFork(jobId, body)
  return (
    <main className="forkpage" id="main" tabIndex={-1} aria-busy={preview.isFetching}>
      <header className="fhead">
        <a
          className="btn ghost icon-only"
          href={pageHref(`/jobs/${jobId}`)}
          aria-label="Back to the job"
          title="Back to the job  Esc"
        >
          <Icon name="close" />
        </a>
        <h1 className="trunc">Fork {workflow}</h1>
        <a className="link mono hide-s" href={pageHref(`/jobs/${jobId}`)}>
          {shortId(jobId)}
        </a>
        <Pill status={job.status} />
        {job.error !== null && (
          <span className="mid trunc hide-s" title={job.error.message}>
            {job.error.code} {job.error.node === undefined ? "" : `${job.error.node}: `}
            {job.error.message}
          </span>
        )}
        <span className="sp" />
        <Legend verdicts={verdicts} />
        <fieldset className="seg" aria-label="Show">
          <button type="button" aria-pressed={!isText} onClick={() => setText(false)}>
            {isNarrow ? "Nodes" : "Graph"}
          </button>
          <button type="button" aria-pressed={isText} onClick={() => setText(true)}>
            Definition
          </button>
        </fieldset>
      </header>
      <section className="fgraph" aria-label={isText ? "Definition of the fork" : "Graph of the fork"}>
        {isText ? (
          <Definition job={job} version={version} edited={edited} onEdited={setEdited} />
        ) : stored.error !== null || (preview.data === undefined && preview.error !== null) ? (
          <Failed
            what="The fork"
            error={stored.error ?? preview.error}
            onRetry={() => void (stored.error === null ? preview.refetch() : stored.refetch())}
          />
        ) : shown === null || preview.data === undefined ? (
          <Loading what="what would run" rows={6} />
        ) : isNarrow ? (
          <ForkList
            {...{ verdicts, origin }}
            graph={shown.graph}
            selected={selected === -1 ? null : selected}
            onSelect={select}
          />
        ) : (
          <ForkGraph
            key={`${version} ${shown.layout.width} ${shown.layout.height}`}
            {...{ ...shown, verdicts, origin }}
            selected={selected === -1 ? null : selected}
            onSelect={select}
          />
        )}
      </section>
      <ForkPanel
        job={job}
        draft={draft}
        onDraft={setRest}
        onUndo={() => setEdited(null)}
        node={selected === -1 ? null : graph!.nodes[selected]!}
        onToggle={toggle}
        verdicts={verdicts}
        origin={origin}
        preview={preview}
        isBusy={isBusy || (edited !== null && edited.valid === undefined)}
        error={error}
        onFork={fork}
      />
    </main>
  )
}

/** The last text without a problem; undefined: the definition is not changed. */
function useLast(edited: EditedDefinition | null) {
  const [last, setLast] = useState(edited?.valid)
  const found = edited === null ? undefined : (edited.valid ?? last)
  useEffect(() => setLast(found), [found])
  return found
}

function Definition({
  job,
  version,
  ...edit
}: {
  job: OriginJob
  version: number | null
  edited: EditedDefinition | null
  onEdited: (edited: EditedDefinition | null) => void
}) {
  const { data, error, refetch } = useQuery(definitionQuery(job, version))
  if (error !== null) return <Failed what="The definition" error={error} onRetry={() => void refetch()} />
  const loading = <Loading what="the definition" rows={6} />
  if (data === undefined) return loading
  return (
    <Suspense fallback={loading}>
      <DefinitionOfFork base={data as never} {...edit} />
    </Suspense>
  )
}

/** Its nodes as they are, for what is reused: what they took and used. */
function useOrigin(path: string): ReadonlyMap<string, OriginNode> {
  const { data } = useQuery({
    queryKey: ["fork", path, "origin"],
    queryFn: ({ signal }) => ask<{ readonly nodes: readonly OriginNode[] }>(`${path}/graph`, { signal }),
  })
  return useMemo(() => new Map((data?.nodes ?? []).map(node => [node.id, node])), [data])
}

/** The fork itself, which opens. A repeated request makes no second job. */
function useFork(jobId: string, body: Record<string, unknown>) {
  const queries = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const key = useRef<{ readonly body: string; readonly key: string } | null>(null)
  const fork = async (confirm: { readonly unsafe: readonly string[]; readonly unknown: boolean }) => {
    const wanted = { ...body, confirm }
    const text = JSON.stringify(wanted)
    if (key.current?.body !== text)
      key.current = { body: text, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` }
    setBusy(true)
    setError(null)
    try {
      const made = await ask<{ readonly job_id: string }>(`${jobPath(jobId)}/fork`, {
        method: "POST",
        body: wanted,
        headers: { "idempotency-key": key.current.key },
      })
      void queries.invalidateQueries({ queryKey: ["jobs"] })
      go(pageHref(`/jobs/${made.job_id}`))
    } catch (failure) {
      setError((failure as Error).message)
      setBusy(false)
    }
  }
  return { fork, isBusy, error }
}

function Legend({ verdicts }: { verdicts: ReadonlyMap<string, { readonly kind: ForkKind }> }) {
  const counts = new Map<ForkKind, number>()
  for (const { kind } of verdicts.values()) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return (
    <ul className="flegend" aria-label="Nodes by what happens to them">
      {(["reused", "changed", "run", "pinned", "skipped"] as const).map(
        kind =>
          counts.has(kind) && (
            <li key={kind} data-fork={kind}>
              <i>
                <Icon name={kindIcons[kind]} small />
              </i>
              {kindTexts[kind]} <b>{count(counts.get(kind)!)}</b>
            </li>
          ),
      )}
    </ul>
  )
}
