/** API tokens: create one, which is shown once, and revoke them. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { ask, viewedOwner } from "../api/http.ts"
import type { Scope, Session } from "../api/session.ts"
import { bytes, clock, count, shortId, timeAgo } from "../model/format.ts"
import { Ask, Dialog } from "../shell/dialog.tsx"
import { Icon } from "../shell/icons.tsx"
import { copyText, Failed, Loading, ShowMore } from "../shell/states.tsx"

interface Token {
  readonly id: string
  readonly owner: string
  readonly scopes: readonly Scope[]
  readonly last_four: string
  readonly created_at: string
  readonly revoked_at: string | null
  readonly rate_limit: number | null
  readonly max_unfinished_jobs: number | null
  readonly max_body_bytes: number | null
}

interface MadeToken extends Token {
  readonly token: string
  readonly server_is_open: boolean
}

interface TokenPage {
  readonly tokens: readonly Token[]
  readonly next: string | null
}

const PAGE = 100

export function Tokens({ session }: { session: Session }) {
  const queries = useQueryClient()
  const [open, setOpen] = useState<"new" | Token | null>(null)
  const [showsRevoked, setShowsRevoked] = useState(false)
  const read = useInfiniteQuery({
    queryKey: ["tokens"],
    queryFn: ({ signal, pageParam }) =>
      ask<TokenPage>("/tokens", { query: { after: pageParam, limit: PAGE }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
  })
  const all = read.data?.pages.flatMap(page => page.tokens) ?? []
  const shown = all.filter(token => showsRevoked || token.revoked_at === null)
  const revoked = all.filter(token => token.revoked_at !== null).length
  const changed = () => void queries.invalidateQueries({ queryKey: ["tokens"] })
  // An admin who views another owner cannot change anything.
  const canChange = viewedOwner() === null
  return (
    <section className="panel" aria-labelledby="tokens">
      <header>
        <h2 id="tokens">Tokens</h2>
        <span className="dim small hide-s">for programs, and for logging in here</span>
        <span className="sp" />
        {revoked > 0 && (
          <label className="only small">
            <input
              type="checkbox"
              checked={showsRevoked}
              onChange={({ target }) => setShowsRevoked(target.checked)}
            />
            {count(revoked)} revoked
          </label>
        )}
        {canChange && (
          <button className="btn sm" type="button" onClick={() => setOpen("new")}>
            <Icon name="plus" />
            New token
          </button>
        )}
      </header>
      {read.error !== null && all.length === 0 ? (
        <Failed what="The tokens" error={read.error} onRetry={() => void read.refetch()} />
      ) : read.data === undefined ? (
        <Loading what="the tokens" rows={4} />
      ) : shown.length === 0 ? (
        <p className="none">
          {revoked > 0
            ? "Every token was revoked."
            : "No token yet. Without one the server answers local requests only."}
        </p>
      ) : (
        <table className="tbl toks">
          <thead>
            <tr>
              <th>Token</th>
              <th>Owner</th>
              <th>Scopes</th>
              <th>Limits</th>
              <th>Created</th>
              <th>
                <span className="sr">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(token => (
              <Row key={token.id} token={token} onRevoke={canChange ? () => setOpen(token) : null} />
            ))}
          </tbody>
        </table>
      )}
      <ShowMore read={read} />
      {open === "new" && <NewToken session={session} onMade={changed} onClose={() => setOpen(null)} />}
      {open !== null && open !== "new" && (
        <Revoke token={open} onDone={changed} onClose={() => setOpen(null)} />
      )}
    </section>
  )
}

function Row({ token, onRevoke }: { token: Token; onRevoke: (() => void) | null }) {
  const { id, owner, scopes, last_four, created_at, revoked_at } = token
  return (
    <tr data-token={id} data-revoked={revoked_at !== null || undefined}>
      <td className="k1" title={id}>
        <span className="mono">…{last_four}</span> <span className="dim small mono">{shortId(id)}</span>
      </td>
      <td className="k2 trunc" title={owner}>
        {owner}
      </td>
      <td className="k3">{scopes.join(", ")}</td>
      <td className="k4 dim small">{limitsText(token)}</td>
      <td className="k5 small" title={timeAgo(Date.parse(created_at))}>
        {clock(Date.parse(created_at))}
      </td>
      <td className="k6 num">
        {revoked_at !== null ? (
          <span className="small dim" title={timeAgo(Date.parse(revoked_at))}>
            revoked {clock(Date.parse(revoked_at))}
          </span>
        ) : (
          onRevoke !== null && (
            <button
              className="btn sm danger"
              type="button"
              aria-label={`Revoke the token that ends in ${last_four}`}
              onClick={onRevoke}
            >
              Revoke
            </button>
          )
        )}
      </td>
    </tr>
  )
}

function limitsText({ rate_limit, max_unfinished_jobs, max_body_bytes }: Token): string {
  const parts = [
    ...(rate_limit === null ? [] : [`${count(rate_limit)} requests/s`]),
    ...(max_unfinished_jobs === null ? [] : [`${count(max_unfinished_jobs)} unfinished jobs`]),
    ...(max_body_bytes === null ? [] : [`bodies of ${bytes(max_body_bytes)}`]),
  ]
  return parts.length === 0 ? "those of the server" : parts.join(", ")
}

const scopeTexts: readonly (readonly [Scope, string])[] = [
  ["read", "reads jobs and workflows"],
  ["submit", "starts jobs and sends signals"],
  ["manage", "cancels, retries and forks jobs, pushes workflows, changes schedules"],
  ["admin", "manages tokens, and sees workers and metrics"],
]

const limits: readonly (readonly [keyof Token, string])[] = [
  ["rate_limit", "Requests per second"],
  ["max_unfinished_jobs", "Unfinished jobs"],
  ["max_body_bytes", "Bytes of a request's body"],
]

function NewToken({
  session,
  onMade,
  onClose,
}: {
  session: Session
  onMade: () => void
  onClose: () => void
}) {
  const [made, setMade] = useState<MadeToken | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const create = async (form: FormData) => {
    const scopes = form.getAll("scope").map(String)
    if (scopes.length === 0) return setError("Choose at least one scope.")
    setBusy(true)
    setError(null)
    const numbers = limits.flatMap(([name]) => {
      const text = String(form.get(name) ?? "").trim()
      return text === "" ? [] : [[name, Number(text)] as const]
    })
    const owner = String(form.get("owner") ?? "").trim()
    try {
      const body = { scopes, ...(owner === "" ? {} : { owner }), ...Object.fromEntries(numbers) }
      setMade(await ask<MadeToken>("/tokens", { method: "POST", body }))
      onMade()
    } catch (failure) {
      setError((failure as Error).message)
    }
    setBusy(false)
  }
  if (made !== null) return <Made made={made} onClose={onClose} />
  return (
    <Ask
      title="New token"
      action="Create"
      isBusy={isBusy}
      error={error}
      onClose={onClose}
      onSubmit={form => void create(form)}
    >
      <fieldset className="scopes">
        <legend>Scopes</legend>
        {scopeTexts.map(([scope, text]) => (
          <label key={scope} className="opt">
            <input type="checkbox" name="scope" value={scope} defaultChecked={scope === "read"} />
            <span>
              <b>{scope}</b> <span className="dim">{text}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label className="field">
        <span>Owner</span>
        <input
          className="in"
          name="owner"
          autoComplete="off"
          placeholder={session.owner ?? ""}
          maxLength={200}
          disabled={!session.sees_other_owners}
        />
      </label>
      <details>
        <summary className="small">Limits</summary>
        <div className="lims">
          {limits.map(([name, label]) => (
            <label key={name} className="field">
              <span>{label}</span>
              <input
                className="in"
                name={name}
                type="number"
                min={name === "rate_limit" ? 0.001 : 1}
                step={name === "rate_limit" ? "any" : 1}
                placeholder="the default"
              />
            </label>
          ))}
        </div>
      </details>
    </Ask>
  )
}

/** The text of a token exists only here: it is closed only by its button. */
function Made({ made, onClose }: { made: MadeToken; onClose: () => void }) {
  const [isCopied, setCopied] = useState(false)
  const close = (event: FormEvent) => {
    event.preventDefault()
    onClose()
  }
  return (
    <Dialog label="The new token" className="ask" onClose={onClose} isKept>
      <form onSubmit={close}>
        <h2>Copy the token now</h2>
        <p className="small mid">It is not stored, and is not shown again.</p>
        <p className="inset code wrap" data-made>
          {made.token}
        </p>
        {made.server_is_open && (
          <p className="small t-waiting">
            The server was started without tokens: it requires them only after a restart.
          </p>
        )}
        <div className="row acts">
          <button
            className="btn"
            type="button"
            onClick={() => void copyText(made.token).then(() => setCopied(true))}
          >
            <Icon name="copy" />
            {isCopied ? "Copied" : "Copy"}
          </button>
          <button className="btn primary" type="submit">
            Done
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function Revoke({ token, onDone, onClose }: { token: Token; onDone: () => void; onClose: () => void }) {
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const revoke = async () => {
    setBusy(true)
    setError(null)
    try {
      await ask(`/tokens/${token.id}`, { method: "DELETE" })
      onDone()
      onClose()
    } catch (failure) {
      setError((failure as Error).message)
      setBusy(false)
    }
  }
  return (
    <Ask
      title={`Revoke the token that ends in ${token.last_four}`}
      action="Revoke"
      isDanger
      isBusy={isBusy}
      error={error}
      onClose={onClose}
      onSubmit={() => void revoke()}
    >
      <p className="small mid">
        The next request with it is refused, and logins that used it end. Jobs that it submitted continue.
      </p>
    </Ask>
  )
}
