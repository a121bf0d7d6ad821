/** Who is logged in, the server, and API tokens. */
import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { clock, counted, fullTime } from "../model/format.ts"
import { root } from "../shell/router.ts"
import { leave, Shell } from "../shell/shell.tsx"
import { Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { Tokens } from "./tokens.tsx"

declare const __UMBRA_VERSION__: string

export default function SettingsPage({ session }: { session: Session }) {
  useTitle("Settings")
  return (
    <Shell session={session} page="settings">
      <Main name="settings">
        <div className="phead">
          <h1>Settings</h1>
        </div>
        <div className="stwo">
          <You session={session} />
          <ServerFacts />
        </div>
        {may(session, "admin") ? (
          <Tokens session={session} />
        ) : (
          <section className="panel">
            <header>
              <h2>Tokens</h2>
            </header>
            <p className="small mid spad">
              Your token may not manage tokens: that needs the scope admin, you have{" "}
              {session.scopes.join(", ")}.
            </p>
          </section>
        )}
      </Main>
    </Shell>
  )
}

const logins: { readonly [login in Session["login"]]: string } = {
  open: "Nobody: the server was started without tokens, and needs no login",
  required: "Nobody",
  session: "By a session of this browser",
  token: "By a token that something else adds to the requests",
}

function You({ session }: { session: Session }) {
  const { name, owner, scopes, expires_at, login } = session
  return (
    <section className="panel" aria-labelledby="you">
      <header>
        <h2 id="you">You</h2>
        <span className="sp" />
        {login === "session" && (
          <button className="btn sm" type="button" onClick={() => void leave()}>
            Log out
          </button>
        )}
      </header>
      <dl className="kv spad">
        <dt>Login</dt>
        <dd>{logins[login]}</dd>
        {login !== "open" && (
          <>
            <dt>Name in histories</dt>
            <dd className="mono">{name}</dd>
          </>
        )}
        <dt>Owner</dt>
        <dd>{owner}</dd>
        <dt>Scopes</dt>
        <dd>{scopes.join(", ")}</dd>
        {expires_at !== null && (
          <>
            <dt>Ends</dt>
            <dd title={fullTime(Date.parse(expires_at))}>{clock(Date.parse(expires_at))}</dd>
          </>
        )}
      </dl>
    </section>
  )
}

interface Ready {
  readonly ready: boolean
  readonly database: "reachable" | "away"
  readonly engine: boolean
  readonly partitions: number
}

interface Health {
  readonly workers: { readonly live: number; readonly dead: number; readonly outdated?: number }
}

function ServerFacts() {
  const { data, error, refetch } = useQuery({
    queryKey: ["server"],
    queryFn: async ({ signal }) => {
      const [ready, health] = await Promise.all([
        ask<Ready>("/ready", { signal, alsoFailed: true }),
        ask<Health>("/health", { signal }),
      ])
      return { ready, workers: health.workers }
    },
    staleTime: 0,
  })
  return (
    <section className="panel" aria-labelledby="server">
      <header>
        <h2 id="server">Server</h2>
      </header>
      {error !== null ? (
        <Failed what="The state of the server" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="the state of the server" rows={4} />
      ) : (
        <dl className="kv spad" data-ready={data.ready.ready}>
          <dt>Release</dt>
          <dd>{__UMBRA_VERSION__}</dd>
          <dt>Address</dt>
          <dd className="mono">{`${window.location.origin}${root}`}</dd>
          <dt>State</dt>
          <dd>{data.ready.ready ? "Ready" : "Not ready"}</dd>
          <dt>Database</dt>
          <dd>{data.ready.database === "reachable" ? "Reachable" : "Does not answer"}</dd>
          <dt>Engine</dt>
          <dd>
            {data.ready.engine ? "Accepts jobs" : "None is known that accepts jobs"};{" "}
            {counted(data.ready.partitions, "partition")} owned by this process
          </dd>
          <dt>Workers</dt>
          <dd>
            {data.workers.live} live, {data.workers.dead} dead
            {(data.workers.outdated ?? 0) > 0 && `, ${data.workers.outdated} of an earlier release`}
          </dd>
          <dt>API</dt>
          <dd>
            <a className="link" href={`${root}docs`} target="_blank" rel="noreferrer">
              Description of all requests
            </a>
          </dd>
        </dl>
      )}
    </section>
  )
}
