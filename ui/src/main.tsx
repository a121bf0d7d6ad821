/** The dashboard: who looks, and which page. */
import { QueryClient, QueryClientProvider, useQuery, useQueryClient } from "@tanstack/react-query"
import { lazy, StrictMode, Suspense, useEffect } from "react"
import { createRoot } from "react-dom/client"
import { ApiError } from "./api/http.ts"
import { type Session, sessionQuery } from "./api/session.ts"
import { JobsPage } from "./jobs/page.tsx"
import { drawSymbols } from "./shell/icons.tsx"
import { LoginPage } from "./shell/login.tsx"
import { followLinks, hrefOf, usePlace } from "./shell/router.ts"
import { Shell } from "./shell/shell.tsx"
import { Boundary, Empty, Failed, Loading } from "./shell/states.tsx"
import { applyTheme } from "./shell/theme.ts"
import "./styles/main.css"

const NowPage = lazy(() => import("./now/page.tsx"))
const ComparePage = lazy(() => import("./compare/page.tsx"))
const JobPage = lazy(() => import("./job/page.tsx"))

applyTheme()
drawSymbols()
followLinks()

/** Nothing is read again by itself: a list is refreshed by its reader, a job is followed. */
const queries = new QueryClient({
  defaultOptions: {
    queries: {
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
      <main className="page" id="main">
        <div className="panel">
          {error === null ? (
            <Loading what="the session" />
          ) : (
            <Failed what="The session" error={error} onRetry={() => void refetch()} />
          )}
        </div>
      </main>
    )
  if (session.login === "required")
    return (
      <LoginPage
        onLogin={next => {
          // Answers that another person got.
          client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] })
          client.setQueryData(sessionQuery.queryKey, next)
        }}
      />
    )
  const [, page, id] = path.split("/")
  if (page === "jobs" && id !== undefined && id !== "")
    return (
      <Suspense fallback={<Waiting session={session} page="jobs" what="the job" />}>
        <JobPage key={id} jobId={id} session={session} />
      </Suspense>
    )
  if (page === "jobs") return <JobsPage session={session} />
  if (page === "compare")
    return (
      <Suspense fallback={<Waiting session={session} page="jobs" what="both jobs" />}>
        <ComparePage session={session} />
      </Suspense>
    )
  if (page === "now")
    return (
      <Suspense fallback={<Waiting session={session} page="now" what="what needs a person" />}>
        <NowPage session={session} />
      </Suspense>
    )
  return (
    <Shell session={session} page="">
      <main className="page" id="main">
        <div className="panel">
          <Empty title="There is no such page">
            <p>
              <a className="link" href={hrefOf("/jobs")}>
                All jobs
              </a>
            </p>
          </Empty>
        </div>
      </main>
    </Shell>
  )
}

/** While the script of a page is loaded. */
function Waiting({ session, page, what }: { session: Session; page: string; what: string }) {
  return (
    <Shell session={session} page={page}>
      <main className="page" id="main">
        <div className="panel">
          <Loading what={what} rows={8} />
        </div>
      </main>
    </Shell>
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
