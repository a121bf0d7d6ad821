/** What every page has: the bar at the top, tabs on a phone, the palette and the sheet of keys. */
import { lazy, type ReactNode, Suspense, useState } from "react"
import { lookAtOwner, lookedAtOwner } from "../api/http.ts"
import { logout, type Session } from "../api/session.ts"
import type { Command } from "./command.ts"
import { Ask } from "./dialog.tsx"
import { Brand, Icon, type IconName } from "./icons.tsx"
import { useKeys } from "./keys.ts"
import { go, hrefOf } from "./router.ts"
import { toggleTheme } from "./theme.ts"

const Palette = lazy(() => import("./palette.tsx"))
const KeySheet = lazy(() => import("./key-sheet.tsx"))

export interface ConnectionState {
  readonly kind: "live" | "lost" | "ended"
  readonly text: string
}

interface ShellProps {
  readonly session: Session
  readonly page: string
  readonly connection?: ConnectionState
  readonly commands?: readonly Command[]
  readonly children: ReactNode
}

/** Pages without a path do not exist yet; their places are kept. */
const pages: readonly {
  readonly id: string
  readonly label: string
  readonly icon: IconName
  readonly path?: string
}[] = [
  { id: "now", label: "Now", icon: "now", path: "/now" },
  { id: "jobs", label: "Jobs", icon: "jobs", path: "/jobs" },
  { id: "workflows", label: "Workflows", icon: "workflow" },
  { id: "pipelines", label: "Pipelines", icon: "pipeline" },
  { id: "capacity", label: "Capacity", icon: "capacity" },
  { id: "schedules", label: "Schedules", icon: "schedule" },
]

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)
const later = "Not part of this release yet"

export function Shell({ session, page, connection, commands = [], children }: ShellProps) {
  const [open, setOpen] = useState<"palette" | "keys" | "owner" | null>(null)
  const other = lookedAtOwner()
  useKeys({
    "mod+k": () => setOpen("palette"),
    "?": () => setOpen("keys"),
    "alt+1": () => go(hrefOf("/now")),
    "alt+2": () => go(hrefOf("/jobs")),
  })
  const close = () => setOpen(null)
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <a className="brand" href={hrefOf("/jobs")}>
          <Brand />
          Umbra
        </a>
        {session.owner !== null && (
          <span className="env" title="The owner whose jobs are shown">
            {other ?? session.owner}
          </span>
        )}
        <nav className="nav" aria-label="Pages">
          {pages.map(({ id, label, path }) =>
            path === undefined ? (
              <span key={id} aria-disabled="true" title={later}>
                {label}
              </span>
            ) : (
              <a key={id} href={hrefOf(path)} aria-current={id === page ? "page" : undefined}>
                {label}
              </a>
            ),
          )}
        </nav>
        <button className="find" type="button" onClick={() => setOpen("palette")}>
          <Icon name="search" />
          <span>Jump to or do</span>
          <span className="keys" aria-hidden="true">
            <kbd>{isMac ? "⌘" : "Ctrl"}</kbd>
            <kbd>K</kbd>
          </span>
        </button>
        {connection !== undefined && (
          <span className="conn hide-s" data-c={connection.kind} role="status">
            {connection.text !== "" && <i />}
            {connection.text}
          </span>
        )}
        <button
          className="btn ghost icon-only"
          type="button"
          aria-label="Change the theme"
          title="Change the theme"
          onClick={toggleTheme}
        >
          <Icon name="sun" />
        </button>
        <button
          className="btn ghost icon-only hide-s"
          type="button"
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts  ?"
          onClick={() => setOpen("keys")}
        >
          <Icon name="help" />
        </button>
        {session.login !== "open" && <Person session={session} onOwner={() => setOpen("owner")} />}
      </header>
      {children}
      <nav className="tabs-s" aria-label="Pages">
        {pages.slice(0, 5).map(({ id, label, icon, path }) =>
          path === undefined ? (
            <span key={id} aria-disabled="true" title={later}>
              <Icon name={icon} />
              {label}
            </span>
          ) : (
            <a key={id} href={hrefOf(path)} aria-current={id === page ? "page" : undefined}>
              <Icon name={icon} />
              {label}
            </a>
          ),
        )}
      </nav>
      <Suspense fallback={null}>
        {open === "palette" && (
          <Palette commands={commands} session={session} onClose={close} onKeys={() => setOpen("keys")} />
        )}
        {open === "keys" && <KeySheet onClose={close} />}
      </Suspense>
      {open === "owner" && <OwnerDialog onClose={close} />}
    </>
  )
}

function Person({ session, onOwner }: { session: Session; onOwner: () => void }) {
  const [isOpen, setOpen] = useState(false)
  const leave = async () => {
    await logout().catch(() => {})
    lookAtOwner(null)
    window.dispatchEvent(new Event("umbra-login"))
  }
  return (
    <div
      className="relative"
      onBlur={event => event.currentTarget.contains(event.relatedTarget) || setOpen(false)}
      onKeyDown={event => event.key === "Escape" && setOpen(false)}
    >
      <button
        className="btn ghost icon-only"
        type="button"
        aria-label="Account"
        aria-expanded={isOpen}
        aria-haspopup="true"
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="person" />
      </button>
      {isOpen && (
        <div className="menu">
          <p>
            {session.name ?? "Logged in"}
            <br />
            owner {session.owner}, scopes {session.scopes.join(", ")}
          </p>
          {session.sees_other_owners && (
            <button type="button" onClick={onOwner}>
              Look at another owner…
            </button>
          )}
          {lookedAtOwner() !== null && (
            <button
              type="button"
              onClick={() => {
                lookAtOwner(null)
                window.location.reload()
              }}
            >
              Back to your own jobs
            </button>
          )}
          {session.login === "session" && (
            <button type="button" onClick={() => void leave()}>
              Log out
            </button>
          )}
        </div>
      )}
    </div>
  )
}

function OwnerDialog({ onClose }: { onClose: () => void }) {
  return (
    <Ask
      title="Look at the jobs of another owner"
      action="Look"
      onClose={onClose}
      onSubmit={form => {
        const owner = String(form.get("owner")).trim()
        if (owner === "") return
        lookAtOwner(owner)
        window.location.assign(hrefOf("/jobs"))
      }}
    >
      <label className="field">
        <span>Owner</span>
        <input className="in" name="owner" autoComplete="off" required />
      </label>
      <p className="small mid">You can read them, and change nothing.</p>
    </Ask>
  )
}
