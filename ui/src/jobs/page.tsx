/** The list of jobs: filters in the address, a scatter, rows in pages, saved views. */
import { keepPreviousData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query"
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import { followJobs, type StreamedJob } from "../api/jobs-stream.ts"
import { may, type Session } from "../api/session.ts"
import type { JobPage } from "../api/types.ts"
import type { BulkVerb } from "../bulk/dialog.tsx"
import { clock, count, counted } from "../model/format.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { changeQuery, go, pageHref, usePlace } from "../shell/router.ts"
import { liveState, Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { FilterBar } from "./filter-bar.tsx"
import { apiQuery, bulkFilter, type Filter, filterQuery, filtersIn, mayMatch } from "./filters.ts"
import { Scatter } from "./scatter.tsx"
import { JobTable } from "./table.tsx"
import { builtIn, removeView, savedViews, saveView } from "./views.ts"

const BulkDialog = lazy(() => import("../bulk/dialog.tsx"))
const LIMIT = 50

export function JobsPage({ session }: { session: Session }) {
  const { query } = usePlace()
  const key = query.toString()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text of the query is the query.
  const filters = useMemo(() => filtersIn(query), [key])
  /** The moment that relative times count from; a refresh moves it. */
  const [readAt, setReadAt] = useState(() => Date.now())
  const queries = useQueryClient()
  const list = useInfiniteQuery({
    queryKey: ["jobs", key, readAt],
    queryFn: ({ pageParam, signal }) =>
      ask<JobPage>("/jobs", {
        query: { ...apiQuery(filters, readAt), limit: LIMIT, after: pageParam },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: page => page.next,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const pages = list.data?.pages ?? []
  const jobs = pages.flatMap(page => page.jobs)
  const last = pages.at(-1)
  const { changes, newer, lostSince } = useJobChanges(jobs[0]?.job_id ?? "", filters, readAt)
  const now = useNow(jobs.some(({ finished_at }) => finished_at === null))
  const refresh = () => {
    setReadAt(Date.now())
    void queries.invalidateQueries({ queryKey: ["jobs"] })
  }
  useTitle("Jobs")
  useListKeys(refresh)
  const change = (next: readonly Filter[]) => changeQuery(filterQuery(next))
  const note =
    list.data === undefined
      ? ""
      : last?.next === null
        ? counted(jobs.length, "job")
        : `${count(jobs.length)}+ jobs`
  return (
    <Shell session={session} page="jobs" connection={liveState(lostSince)}>
      <Main>
        <div className="phead">
          <h1>Jobs</h1>
          <Views current={key} />
          <span className="sp" />
          {may(session, "manage") && filters.length > 0 && <Bulk filters={filters} />}
          <button className="btn" type="button" title="Refresh  R" onClick={refresh}>
            <Icon name="retry" />
            Refresh
          </button>
        </div>
        <FilterBar filters={filters} note={note} onChange={change} />
        <Scatter
          filters={filters}
          readAt={readAt}
          onRange={(from, before) =>
            changeQuery({ started: new Date(from).toISOString(), before: new Date(before).toISOString() })
          }
        />
        {newer > 0 && (
          <p className="more">
            <button className="btn sm" type="button" onClick={refresh}>
              Show {count(newer)} newer
            </button>
          </p>
        )}
        <section className="panel" aria-label="Jobs" aria-busy={list.isFetching}>
          {list.error !== null ? (
            <Failed
              what="Jobs"
              error={list.error}
              note="This is not an empty list."
              onRetry={() => void list.refetch()}
            />
          ) : list.data === undefined ? (
            <Loading what="jobs" rows={10} />
          ) : jobs.length === 0 && last?.next === null ? (
            <NoJobs filters={filters} onChange={change} />
          ) : (
            <JobTable jobs={jobs} changes={changes} now={now} />
          )}
        </section>
        {list.data !== undefined && last !== undefined && last.next !== null && (
          <div className="more">
            <button
              className="btn"
              type="button"
              disabled={list.isFetchingNextPage}
              onClick={() => void list.fetchNextPage()}
            >
              {last.complete ? `Show ${LIMIT} older` : "Search on"}
            </button>
            <span className="small dim">
              {last.complete
                ? `${count(jobs.length)} shown, there are more.`
                : `The search ended early, at ${last.scanned_to === null ? "the end" : clock(Date.parse(last.scanned_to))}: ${counted(jobs.length, "job")} found so far.`}
            </span>
          </div>
        )}
      </Main>
    </Shell>
  )
}

/** Draws durations of unfinished jobs again, at most once a second. */
function useNow(isOn: boolean): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    if (!isOn) return
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [isOn])
  return now
}

/** Changes of jobs since the list was read: rows are updated in place, new jobs are counted. */
function useJobChanges(newest: string, filters: readonly Filter[], readAt: number) {
  const [changes, setChanges] = useState<ReadonlyMap<string, StreamedJob>>(new Map())
  const [lostSince, setLost] = useState<number | null>(null)
  const known = useRef(new Map<string, StreamedJob>())
  useEffect(() => {
    let frame = 0
    const stop = followJobs({
      onJob: job => {
        known.current.set(job.job_id, job)
        // The oldest entries are dropped, so that a tab that is open for long does not fill the memory.
        if (known.current.size > 2000) known.current.delete(known.current.keys().next().value!)
        if (frame === 0)
          frame = requestAnimationFrame(() => {
            frame = 0
            setChanges(new Map(known.current))
          })
      },
      onConnection: setLost,
    })
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [])
  // Ids of jobs rise with time.
  const newer = [...changes.values()].filter(
    job => job.job_id > newest && Date.parse(job.created_at) > readAt - 2000 && mayMatch(filters, job),
  ).length
  return { changes, newer, lostSince }
}

function useListKeys(refresh: () => void): void {
  useKeys({ ...rowKeys(".jl"), r: refresh })
}

function NoJobs({
  filters,
  onChange,
}: {
  filters: readonly Filter[]
  onChange: (filters: readonly Filter[]) => void
}) {
  if (filters.length === 0)
    return (
      <Empty title="No job yet">
        <p>
          <code className="mono">umbra submit NAME</code> starts one;{" "}
          <code className="mono">umbra push flow.yaml</code> stores a workflow.
        </p>
      </Empty>
    )
  const last = filters.at(-1)!
  return (
    <Empty title="No job matches">
      <p>{counted(filters.length, "filter")}, and no job that all of them apply to.</p>
      <div className="row">
        <button className="btn sm" type="button" onClick={() => onChange(filters.slice(0, -1))}>
          Remove {last.key} {last.value}
        </button>
      </div>
    </Empty>
  )
}

const bulkVerbs: readonly (readonly [BulkVerb, string])[] = [
  ["retry", "Retry all that match…"],
  ["cancel", "Cancel all that match…"],
  ["delete", "Delete all that match…"],
]

/** A command for all jobs that match the filters, also those that the list does not show. */
function Bulk({ filters }: { filters: readonly Filter[] }) {
  const [isOpen, setOpen] = useState(false)
  const [asked, setAsked] = useState<{ verb: BulkVerb; filter: ReturnType<typeof bulkFilter> } | null>(null)
  return (
    <div
      className="relative"
      onBlur={event => event.currentTarget.contains(event.relatedTarget) || setOpen(false)}
      onKeyDown={event => event.key === "Escape" && setOpen(false)}
    >
      <button
        className="btn"
        type="button"
        aria-expanded={isOpen}
        aria-haspopup="true"
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="down" />
        All that match
      </button>
      {isOpen && (
        <div className="menu">
          {bulkVerbs.map(([verb, label]) => (
            <button
              key={verb}
              className={verb === "retry" ? "" : "t-failed"}
              type="button"
              onClick={() => {
                setOpen(false)
                setAsked({ verb, filter: bulkFilter(filters, Date.now()) })
              }}
            >
              {label}
            </button>
          ))}
        </div>
      )}
      {asked !== null && (
        <Suspense fallback={null}>
          <BulkDialog
            verb={asked.verb}
            what={`${filters.map(({ key, value }) => `${key} ${value}`).join(", ")}${
              filters.some(({ key }) => key === "parent") ? "" : ", without child jobs"
            }`}
            filter={asked.filter}
            onClose={() => setAsked(null)}
          />
        </Suspense>
      )}
    </div>
  )
}

function Views({ current }: { current: string }) {
  const [saved, setSaved] = useState(savedViews)
  const [isAsking, setAsking] = useState(false)
  const own = saved.find(({ query }) => query === current)
  return (
    <nav className="views" aria-label="Views">
      {[...builtIn, ...saved].map(({ name, query }) => (
        <a
          key={name}
          href={`${pageHref("/jobs")}${query === "" ? "" : `?${query}`}`}
          aria-current={query === current ? "true" : undefined}
        >
          {name}
        </a>
      ))}
      {own !== undefined && (
        <button
          className="btn ghost sm icon-only"
          type="button"
          aria-label={`Remove the view ${own.name}`}
          onClick={() => {
            removeView(own.name)
            setSaved(savedViews())
          }}
        >
          <Icon name="close" />
        </button>
      )}
      {own === undefined && !builtIn.some(({ query }) => query === current) && (
        <button className="btn ghost sm" type="button" onClick={() => setAsking(true)}>
          <Icon name="plus" />
          Save view
        </button>
      )}
      {isAsking && (
        <Ask
          title="Save this view"
          action="Save"
          onClose={() => setAsking(false)}
          onSubmit={form => {
            const name = String(form.get("name")).trim()
            if (name === "") return
            saveView({ name, query: current })
            setSaved(savedViews())
            setAsking(false)
            go(`${pageHref("/jobs")}?${current}`, { replace: true })
          }}
        >
          <label className="field">
            <span>Name</span>
            <input className="in" name="name" maxLength={40} required autoComplete="off" />
          </label>
          <p className="small mid">
            It is kept in this browser. To share it, share the address of this page.
          </p>
        </Ask>
      )}
    </nav>
  )
}
