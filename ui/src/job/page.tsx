/** The page of one job of the server. */
import { lazy, Suspense, useEffect, useMemo, useState, useSyncExternalStore } from "react"
import { Follower } from "../api/follow.ts"
import { ApiError, buildUrl, download, jobPath } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { shortId } from "../model/format.ts"
import { requestLayout } from "../model/layout/layouts.ts"
import type { Connection } from "../model/source.ts"
import type { Moment } from "../model/timeline.ts"
import type { Command } from "../shell/command.ts"
import { DownloadButton } from "../shell/download.tsx"
import { Icon } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, currentAddress, go, pageHref } from "../shell/router.ts"
import { type ConnectionState, liveState, Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { ActionButtons, ActionDialog, type ActionName, actionTexts, possibleActions } from "./actions.tsx"
import { anotherNode, JobView, views } from "./job-view.tsx"
import { routesHandler } from "./panel/routes-tab.tsx"

const Board = lazy(() => import("../pipeline/board.tsx"))

function useFollower(jobId: string): Follower | null {
  const [follower, setFollower] = useState<Follower | null>(null)
  useEffect(() => {
    const next = new Follower(jobId)
    setFollower(next)
    return () => next.close()
  }, [jobId])
  return follower
}

const never = () => () => {}

export default function JobPage({ jobId, session }: { jobId: string; session: Session }) {
  const follower = useFollower(jobId)
  useSyncExternalStore(follower?.subscribe ?? never, () => follower?.version ?? 0)
  const [action, setAction] = useState<ActionName | null>(null)
  const timeline = follower?.timeline ?? null
  const status = timeline === null ? null : timeline.stateAt(timeline.length).status
  const workflow = timeline === null ? null : timeline.stateAt(timeline.length).workflow
  useTitle(`${workflow ?? shortId(jobId)} ${status ?? ""}`)
  const isPipeline = timeline?.graph.nodes[0]?.handler === routesHandler
  const canManage = may(session, "manage")
  // An execution of a pipeline has no nodes that could be taken over.
  // The server forks no pipelines.
  const canFork = canManage && !isPipeline && status !== "DELETED" && (timeline?.graph.nodes.length ?? 0) > 0
  const actions = timeline === null || !canManage ? [] : possibleActions(timeline.newest(0))
  const fork = () => {
    const node = new URL(currentAddress()).searchParams.get("node")
    if (canFork) go(pageHref(`/jobs/${jobId}/fork`, { node }))
  }
  const compare = () => {
    if (timeline !== null) go(compareHref(jobId, timeline.stateAt(timeline.length).forkedFrom))
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: the actions follow from the status.
  const commands = useMemo<readonly Command[]>(
    () =>
      timeline === null
        ? []
        : jobCommands(
            jobId,
            timeline.graph.nodes.map(({ id }) => id),
            actions,
            setAction,
            compare,
            canFork ? fork : null,
          ),
    [timeline, jobId, actions.join(" ")],
  )
  const pausing = actions.find(name => name === "pause" || name === "resume")
  useKeys({ p: () => pausing !== undefined && setAction(pausing), c: compare, f: fork })
  const connection = connectionState(follower?.connection ?? { kind: "loading" })
  const error = follower?.error ?? null
  return (
    <Shell
      session={session}
      page={isPipeline ? "pipelines" : "jobs"}
      connection={connection}
      commands={commands}
    >
      {follower === null || timeline === null ? (
        <Main>
          <div className="panel">
            {error === null ? (
              <Loading what="the job" rows={8} />
            ) : (
              <NoJob jobId={jobId} error={error} onRetry={() => follower?.retryNow()} />
            )}
          </div>
        </Main>
      ) : (
        <JobView
          source={follower}
          timeline={timeline}
          layout={requestLayout}
          canSignal={may(session, "submit")}
          onCommand={() => void follower.refresh()}
          board={(moment, around) => (
            <Suspense fallback={<Loading what="the routes" rows={4} />}>
              <Board source={follower} moment={moment} session={session} {...around} />
            </Suspense>
          )}
          actions={(newest: Moment) => (
            <>
              {canManage && (
                <ActionButtons
                  actions={possibleActions(newest).filter(name => name !== "delete")}
                  onAction={setAction}
                />
              )}
              {canFork && (
                <button className="btn" type="button" title="Fork  F" onClick={fork}>
                  <Icon name="fork" />
                  Fork
                </button>
              )}
              <button className="btn hide-s" type="button" title="Compare  C" onClick={compare}>
                <Icon name="takeover" />
                Compare
              </button>
              <DownloadMenu
                jobId={jobId}
                canDelete={canManage && possibleActions(newest).includes("delete")}
                onDelete={() => setAction("delete")}
              />
            </>
          )}
        />
      )}
      {action !== null && (
        <ActionDialog
          jobId={jobId}
          name={action}
          onClose={() => setAction(null)}
          onDone={() => {
            if (action === "delete") go(pageHref("/jobs"))
            else void follower?.refresh()
          }}
        />
      )}
    </Shell>
  )
}

function NoJob({ jobId, error, onRetry }: { jobId: string; error: unknown; onRetry: () => void }) {
  if (error instanceof ApiError && error.status === 404)
    return (
      <Empty title={`Job ${shortId(jobId)} not found`}>
        <p>It does not exist, was removed, or belongs to another owner.</p>
        <p>
          <a className="link" href={pageHref("/jobs")}>
            All jobs
          </a>
        </p>
      </Empty>
    )
  return <Failed what="The job" error={error} onRetry={onRetry} />
}

function jobCommands(
  jobId: string,
  nodes: readonly string[],
  actions: readonly ActionName[],
  onAction: (name: ActionName) => void,
  onCompare: () => void,
  onFork: (() => void) | null,
): Command[] {
  return [
    ...actions.map((name): Command => {
      const { title, icon, key } = actionTexts[name]
      return {
        group: "Here",
        prefix: ":",
        icon,
        label: title,
        detail: shortId(jobId),
        ...(key === undefined ? {} : { key }),
        run: () => onAction(name),
      }
    }),
    {
      group: "Here",
      prefix: ":",
      icon: "takeover",
      label: "Compare with another job or moment",
      key: "C",
      run: onCompare,
    },
    ...(onFork === null
      ? []
      : [
          {
            group: "Here",
            prefix: ":" as const,
            icon: "fork" as const,
            label: "Fork: run a part of it again",
            key: "F",
            run: onFork,
          },
        ]),
    {
      group: "Here",
      prefix: ":",
      icon: "download",
      label: "Download the replay file",
      detail: shortId(jobId),
      run: () => void download(reportAddress(jobId), `umbra-${jobId}.html`).catch(() => {}),
    },
    ...views.map(
      ([view, label, key, icon]): Command => ({
        group: "Here",
        prefix: ":",
        icon,
        label: `Show the ${label.toLowerCase()}`,
        key,
        run: () => changeQuery({ view: view === "graph" ? null : view }),
      }),
    ),
    ...nodes.map(
      (id): Command => ({
        group: "Nodes",
        prefix: "@",
        icon: "child",
        label: id,
        detail: "node",
        run: () => changeQuery({ ...anotherNode, node: id }),
      }),
    ),
  ]
}

/** A past moment is compared with now, a fork with its origin; for another job the page asks for the second one. */
function compareHref(jobId: string, origin: string | null): string {
  const at = new URL(currentAddress()).searchParams.get("at")
  if (at !== null) return pageHref("/compare", { a: jobId, at_a: at, b: jobId })
  return pageHref("/compare", origin === null ? { a: jobId } : { a: origin, b: jobId })
}

function reportAddress(jobId: string): string {
  return buildUrl(`${jobPath(jobId)}/report`)
}

function DownloadMenu({
  jobId,
  canDelete,
  onDelete,
}: {
  jobId: string
  canDelete: boolean
  onDelete: () => void
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <div
      className="relative"
      onBlur={event => event.currentTarget.contains(event.relatedTarget) || setOpen(false)}
      onKeyDown={event => {
        if (event.key !== "Escape" || !isOpen) return
        event.stopPropagation()
        setOpen(false)
      }}
    >
      <button
        className="btn"
        type="button"
        aria-expanded={isOpen}
        aria-haspopup="true"
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="download" />
        Download
      </button>
      {isOpen && (
        <div className="menu">
          <DownloadButton address={reportAddress(jobId)} name={`umbra-${jobId}.html`}>
            Replay file (HTML)
          </DownloadButton>
          <DownloadButton address={`${reportAddress(jobId)}?payloads=full`} name={`umbra-${jobId}.html`}>
            Replay file with all payloads
          </DownloadButton>
          <DownloadButton address={buildUrl(`${jobPath(jobId)}/graph`)} name={`${jobId}-graph.json`}>
            Graph (JSON)
          </DownloadButton>
          {canDelete && (
            <button className="t-failed" type="button" onClick={onDelete}>
              Delete the job…
            </button>
          )}
        </div>
      )}
    </div>
  )
}

function connectionState(connection: Connection): ConnectionState {
  switch (connection.kind) {
    case "live":
      return liveState(null)
    case "lost":
      return liveState(connection.since)
    case "ended":
      return { kind: "ended", text: "Ended" }
    case "hidden":
      return { kind: "ended", text: "Paused" }
    default:
      return { kind: "ended", text: "" }
  }
}
