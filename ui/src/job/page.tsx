/** The page of one job of the server. */
import { useEffect, useMemo, useState, useSyncExternalStore } from "react"
import { Follower } from "../api/follow.ts"
import { ApiError, addressOf, download } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { clock, shortId } from "../model/format.ts"
import { requestLayout } from "../model/layout/layouts.ts"
import type { Connection } from "../model/source.ts"
import type { Moment } from "../model/timeline.ts"
import type { Command } from "../shell/command.ts"
import { DownloadButton } from "../shell/download.tsx"
import { Icon } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, currentAddress, go, hrefOf } from "../shell/router.ts"
import { type ConnectionState, Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import { ActionButtons, ActionDialog, type ActionName, actionTexts, possibleActions } from "./actions.tsx"
import { JobView } from "./job-view.tsx"

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
  useEffect(() => {
    document.title = `${workflow ?? shortId(jobId)} ${status ?? ""} · Umbra`
  }, [workflow, status, jobId])
  const canManage = may(session, "manage")
  const actions = timeline === null || !canManage ? [] : possibleActions(timeline.newest(0))
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
          ),
    [timeline, jobId, actions.join(" ")],
  )
  const pausing = actions.find(name => name === "pause" || name === "resume")
  useKeys({ p: () => pausing !== undefined && setAction(pausing), c: compare })
  const connection = connectionState(follower?.connection ?? { kind: "loading" })
  const error = follower?.error ?? null
  return (
    <Shell session={session} page="jobs" connection={connection} commands={commands}>
      {follower === null || timeline === null ? (
        <main className="page" id="main" tabIndex={-1}>
          <div className="panel">
            {error === null ? (
              <Loading what="the job" rows={8} />
            ) : (
              <NoJob jobId={jobId} error={error} onRetry={() => follower?.retryNow()} />
            )}
          </div>
        </main>
      ) : (
        <JobView
          source={follower}
          timeline={timeline}
          layout={requestLayout}
          canSignal={may(session, "submit")}
          onCommand={() => void follower.refresh()}
          actions={(newest: Moment) => (
            <>
              {canManage && (
                <ActionButtons
                  actions={possibleActions(newest).filter(name => name !== "delete")}
                  onAction={setAction}
                />
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
            if (action === "delete") go(hrefOf("/jobs"))
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
      <Empty title={`No job ${shortId(jobId)} here`}>
        <p>It does not exist, was removed, or belongs to another owner.</p>
        <p>
          <a className="link" href={hrefOf("/jobs")}>
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
    {
      group: "Here",
      prefix: ":",
      icon: "download",
      label: "Download the replay file",
      detail: shortId(jobId),
      run: () => void download(reportAddress(jobId), `umbra-${jobId}.html`).catch(() => {}),
    },
    {
      group: "Here",
      prefix: ":",
      icon: "workflow",
      label: "Show the graph",
      key: "G",
      run: () => changeQuery({ view: null }),
    },
    {
      group: "Here",
      prefix: ":",
      icon: "jobs",
      label: "Show the outline",
      key: "O",
      run: () => changeQuery({ view: "outline" }),
    },
    {
      group: "Here",
      prefix: ":",
      icon: "clock",
      label: "Show the gantt",
      key: "T",
      run: () => changeQuery({ view: "gantt" }),
    },
    ...nodes.map(
      (id): Command => ({
        group: "Nodes",
        prefix: "@",
        icon: "child",
        label: id,
        detail: "node",
        run: () => changeQuery({ node: id, item: null }),
      }),
    ),
  ]
}

/** A past moment is compared with now, a fork with its origin; for another job the page asks for the second one. */
function compareHref(jobId: string, origin: string | null): string {
  const at = new URL(currentAddress()).searchParams.get("at")
  if (at !== null) return hrefOf("/compare", { a: jobId, at_a: at, b: jobId })
  return hrefOf("/compare", origin === null ? { a: jobId } : { a: origin, b: jobId })
}

function reportAddress(jobId: string): string {
  return addressOf(`/jobs/${encodeURIComponent(jobId)}/report`)
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
          <DownloadButton
            address={addressOf(`/jobs/${encodeURIComponent(jobId)}/graph`)}
            name={`${jobId}-graph.json`}
          >
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
      return { kind: "live", text: "Live" }
    case "lost":
      return { kind: "lost", text: `Not live since ${clock(connection.since)}` }
    case "ended":
      return { kind: "ended", text: "Ended" }
    case "hidden":
      return { kind: "ended", text: "Paused" }
    default:
      return { kind: "ended", text: "" }
  }
}
