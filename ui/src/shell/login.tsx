/** Exchanges an API token for a session. The token is not kept in the browser. */

import { type FormEvent, useState } from "react"
import { ApiError } from "../api/http.ts"
import { login, type Session } from "../api/session.ts"
import { Brand, StateMark } from "./icons.tsx"
import { useTitle } from "./states.tsx"

export function LoginPage({ onLogin }: { onLogin: (session: Session) => void }) {
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  useTitle("Sign in")
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const token = String(new FormData(form).get("token")).trim()
    setBusy(true)
    setError(null)
    try {
      onLogin(await login(token))
    } catch (failure) {
      const wait =
        failure instanceof ApiError && failure.retryAfterSeconds !== null
          ? ` Try again in ${failure.retryAfterSeconds} s.`
          : ""
      setError(`${(failure as Error).message}${wait}`)
      form.querySelector("input")?.focus()
    } finally {
      setBusy(false)
    }
  }
  return (
    <main className="login" id="main">
      <form className="lcard" onSubmit={event => void submit(event)}>
        <div className="lb">
          <Brand size={32} />
          <h1>Umbra</h1>
          <p className="small dim">{window.location.host}</p>
        </div>
        <label className="field">
          <span>API token</span>
          <input
            className={error === null ? "in mono" : "in mono bad"}
            type="password"
            name="token"
            required
            // biome-ignore lint/a11y/noAutofocus: the page has one field.
            autoFocus
            autoComplete="off"
            spellCheck={false}
            aria-invalid={error !== null}
            aria-describedby={error === null ? undefined : "login-error"}
          />
          {error !== null && (
            <em className="err" id="login-error" role="alert">
              <StateMark status="FAILED" small />
              {error}
            </em>
          )}
        </label>
        <button className="btn primary wide" type="submit" disabled={isBusy}>
          Sign in
        </button>
        <p className="small dim">
          Its scopes decide what you can do here. The token is exchanged for a session of 12 h and is not kept
          in this browser. <span className="mono nowrap">umbra token create</span> makes one.
        </p>
      </form>
    </main>
  )
}
