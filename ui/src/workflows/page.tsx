/** Workflows: the list, and one of them with its versions, aliases, statistics, launch form and editor. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { lazy, Suspense, useState } from "react"
import { ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { clock } from "../model/format.ts"
import type { Command } from "../shell/command.ts"
import { Icon } from "../shell/icons.tsx"
import { go, pageHref, usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { Changes } from "./changes.tsx"
import { GraphOfVersion } from "./graph-of-version.tsx"
import { Launch } from "./launch.tsx"
import { WorkflowListView } from "./list.tsx"
import { Overview } from "./overview.tsx"
import { type Workflow, workflowPath, workflowQuery } from "./types.ts"

const EditorOfDocument = lazy(() => import("./editor.tsx"))

const views = ["overview", "graph", "changes", "edit", "launch"] as const
type View = (typeof views)[number]
const labels: { readonly [view in View]: string } = {
  ...{ overview: "Overview", graph: "Graph", changes: "Changes", edit: "Edit", launch: "Launch" },
}

export default function WorkflowsPage({ session, name }: { session: Session; name: string | null }) {
  const { query } = usePlace()
  if (name !== null) return <WorkflowPage key={name} session={session} name={name} />
  return (
    <Shell session={session} page="workflows">
      {query.has("new") && may(session, "manage") ? (
        <Main>
          <div className="phead">
            <Crumb />
            <h1>New workflow</h1>
          </div>
          <Editor workflow={null} canPush />
        </Main>
      ) : (
        <WorkflowListView session={session} />
      )}
    </Shell>
  )
}

function Editor(props: { workflow: Workflow | null; canPush: boolean }) {
  return (
    <Suspense fallback={<Loading what="the editor" rows={8} />}>
      <EditorOfDocument {...props} />
    </Suspense>
  )
}

function Crumb() {
  return (
    <>
      <a className="link" href={pageHref("/workflows")}>
        Workflows
      </a>
      <span className="dim" aria-hidden="true">
        /
      </span>
    </>
  )
}

function WorkflowPage({ session, name }: { session: Session; name: string }) {
  const { query } = usePlace()
  const { data, error, refetch } = useQuery(workflowQuery(name))
  const allowed = views.filter(
    view => (view !== "launch" || may(session, "submit")) && (view !== "edit" || may(session, "read")),
  )
  const asked = query.get("view") as View | null
  const view = allowed.find(one => one === asked) ?? "overview"
  useTitle(`${name} ${view === "overview" ? "" : labels[view]}`)
  const commands = allowed.map(
    (one): Command => ({
      ...{ group: "Here", prefix: ":", icon: "workflow", label: `${labels[one]} of ${name}` },
      run: () => go(pageHref(`/workflows/${encodeURIComponent(name)}`, { view: one })),
    }),
  )
  return (
    <Shell session={session} page="workflows" commands={commands}>
      <Main name="wf">
        <div className="phead">
          <Crumb />
          <h1>{name}</h1>
          <nav className="seg" aria-label="Parts of the workflow">
            {allowed.map(one => (
              <a
                key={one}
                href={pageHref(`/workflows/${encodeURIComponent(name)}`, {
                  view: one === "overview" ? null : one,
                })}
                aria-current={one === view ? "page" : undefined}
              >
                {labels[one]}
              </a>
            ))}
          </nav>
          <span className="sp" />
          {data !== undefined && <span className="dim hide-s">{sizeText(data)}</span>}
          <a className="btn" href={pageHref("/jobs", { workflow: name })}>
            <Icon name="jobs" />
            Jobs
          </a>
        </div>
        {data?.paused != null && <PausedNote workflow={data} canResume={may(session, "manage")} />}
        {data === undefined ? (
          <section className="panel">
            {error === null ? (
              <Loading what={`workflow ${name}`} rows={8} />
            ) : (
              <Failed what={`Workflow ${name}`} error={error} onRetry={() => void refetch()} />
            )}
          </section>
        ) : view === "graph" ? (
          <GraphOfVersion workflow={data} />
        ) : view === "changes" ? (
          <Changes workflow={data} />
        ) : view === "edit" ? (
          <Editor workflow={data} canPush={may(session, "manage")} />
        ) : view === "launch" ? (
          <Launch workflow={data} />
        ) : (
          <Overview workflow={data} canManage={may(session, "manage")} />
        )}
      </Main>
    </Shell>
  )
}

function sizeText({ version, definition: { nodes, routes } }: Workflow): string {
  const parts = routes === undefined ? [nodes?.length ?? 0, "node"] : [routes.length, "route"]
  return `v${version}, ${parts[0]} ${parts[1]}${parts[0] === 1 ? "" : "s"}`
}

function PausedNote({ workflow, canResume }: { workflow: Workflow; canResume: boolean }) {
  const queries = useQueryClient()
  const { at, by, reason } = workflow.paused!
  const [error, setError] = useState<string | null>(null)
  const resume = () =>
    ask(`${workflowPath(workflow.name)}/resume`, { method: "POST" })
      .then(() => queries.invalidateQueries({ queryKey: workflowQuery(workflow.name).queryKey, exact: true }))
      .catch((failure: Error) => setError(failure.message))
  return (
    <p className="wnote" role="status">
      <Icon name="pause" />
      <span>
        New jobs do not begin since {clock(Date.parse(at))}
        {by === null ? "" : `, paused by ${by}`}
        {reason === null ? "." : `: ${reason}`} {error !== null && <b className="t-failed">{error}</b>}
      </span>
      {canResume && (
        <button className="btn sm" type="button" onClick={() => void resume()}>
          Resume
        </button>
      )}
    </p>
  )
}
