/** The dashboard: checks the session, and shows the page of the address. */
import { QueryClient, QueryClientProvider, useQuery, useQueryClient } from "@tanstack/react-query"
import { lazy, type ReactNode, StrictMode, Suspense, useEffect } from "react"
import { createRoot } from "react-dom/client"
import { ApiError } from "./api/http.ts"
import { type Session, sessionQuery } from "./api/session.ts"
import { JobsPage } from "./jobs/page.tsx"
import { drawSymbols } from "./shell/icons.tsx"
import { LoginPage } from "./shell/login.tsx"
import { followLinks, pageHref, usePlace } from "./shell/router.ts"
import { Shell } from "./shell/shell.tsx"
import { Boundary, Empty, Failed, Loading, Main } from "./shell/states.tsx"
import { applyTheme } from "./shell/theme.ts"
import "./styles/main.css"

const NowPage = lazy(() => import("./now/page.tsx"))
const ComparePage = lazy(() => import("./compare/page.tsx"))
const SettingsPage = lazy(() => import("./settings/page.tsx"))
const SchedulesPage = lazy(() => import("./schedules/page.tsx"))
const AnswerPage = lazy(() => import("./answer/page.tsx"))
const ForkPage = lazy(() => import("./fork/page.tsx"))
const WorkflowsPage = lazy(() => import("./workflows/page.tsx"))
const PipelinesPage = lazy(() => import("./pipeline/page.tsx"))
const CapacityPage = lazy(() => import("./capacity/page.tsx"))
const JobPage = lazy(() => import("./job/page.tsx"))

applyTheme()
drawSymbols()
followLinks()

/** Nothing is refetched automatically: people refresh a list, and a job is followed by its stream. */
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The server may be on this machine, which needs no network.
      networkMode: "always",
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      staleTime: 30_000,
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiError && (error.status === null || error.status === 503),
    },
  },
})

function App() {
  const { path } = usePlace()
  const client = useQueryClient()
  const { data: session, error, refetch } = useQuery(sessionQuery)
  useEffect(() => {
    const ended = () => void client.invalidateQueries({ queryKey: sessionQuery.queryKey })
    window.addEventListener("umbra-login", ended)
    return () => window.removeEventListener("umbra-login", ended)
  }, [client])
  if (session === undefined)
    return (
      <Main>
        <div className="panel">
          {error === null ? (
            <Loading what="the session" />
          ) : (
            <Failed what="The session" error={error} onRetry={() => void refetch()} />
          )}
        </div>
      </Main>
    )
  if (session.login === "required")
    return (
      <LoginPage
        onLogin={next => {
          // Cached responses belong to the previous login.
          client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] })
          client.setQueryData(sessionQuery.queryKey, next)
        }}
      />
    )
  const [, page, id, part] = path.split("/")
  if (page === "jobs" && id !== undefined && id !== "" && part === "fork")
    return (
      <Part session={session} page="jobs" what="the job">
        <ForkPage key={id} jobId={id} session={session} />
      </Part>
    )
  if (page === "jobs" && id !== undefined && id !== "" && part === "answer")
    return (
      <Part session={session} page="now" what="the form">
        <AnswerPage key={id} jobId={id} session={session} />
      </Part>
    )
  if (page === "jobs" && id !== undefined && id !== "")
    return (
      <Part session={session} page="jobs" what="the job">
        <JobPage key={id} jobId={id} session={session} />
      </Part>
    )
  if (page === "jobs") return <JobsPage session={session} />
  if (page === "schedules")
    return (
      <Part session={session} page="schedules" what="the schedules">
        <SchedulesPage key={id} name={id === undefined || id === "" ? null : id} session={session} />
      </Part>
    )
  if (page === "settings")
    return (
      <Part session={session} page="settings" what="the settings">
        <SettingsPage session={session} />
      </Part>
    )
  if (page === "compare")
    return (
      <Part session={session} page="jobs" what="both jobs">
        <ComparePage session={session} />
      </Part>
    )
  if (page === "workflows")
    return (
      <Part session={session} page="workflows" what="workflows">
        <WorkflowsPage
          session={session}
          name={id === undefined || id === "" ? null : decodeURIComponent(id)}
        />
      </Part>
    )
  if (page === "now")
    return (
      <Part session={session} page="now" what="what needs a person">
        <NowPage session={session} />
      </Part>
    )
  if (page === "pipelines")
    return (
      <Part session={session} page="pipelines" what="the executions">
        <PipelinesPage session={session} />
      </Part>
    )
  if (page === "capacity")
    return (
      <Part session={session} page="capacity" what="the capacity">
        <CapacityPage session={session} />
      </Part>
    )
  return (
    <Shell session={session} page="">
      <Main>
        <div className="panel">
          <Empty title="There is no such page">
            <p>
              <a className="link" href={pageHref("/jobs")}>
                All jobs
              </a>
            </p>
          </Empty>
        </div>
      </Main>
    </Shell>
  )
}

interface PartProps {
  readonly session: Session
  /** What the bar at the top shows while the script of the page is loaded. */
  readonly page: string
  readonly what: string
  readonly children: ReactNode
}

/** A page with a script of its own. */
function Part({ session, page, what, children }: PartProps) {
  return (
    <Suspense
      fallback={
        <Shell session={session} page={page}>
          <Main>
            <div className="panel">
              <Loading what={what} rows={8} />
            </div>
          </Main>
        </Shell>
      }
    >
      {children}
    </Suspense>
  )
}

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Boundary>
        <App />
      </Boundary>
    </QueryClientProvider>
  </StrictMode>,
)
