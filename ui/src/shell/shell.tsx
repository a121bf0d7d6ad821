/** What every page has: the bar at the top, tabs on a phone, the palette and the sheet of keys. */
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react"
import { viewedOwner, viewOwner } from "../api/http.ts"
import { logout, type Session } from "../api/session.ts"
import { clock, count } from "../model/format.ts"
import { useThings } from "../now/needs.ts"
import type { Command } from "./command.ts"
import { Ask } from "./dialog.tsx"
import { Brand, Icon, type IconName } from "./icons.tsx"
import { useKeys } from "./keys.ts"
import { focusMain, go, pageHref } from "./router.ts"
import { toggleTheme } from "./theme.ts"

const Palette = lazy(() => import("./palette.tsx"))
const KeySheet = lazy(() => import("./key-sheet.tsx"))

export interface ConnectionState {
  readonly kind: "live" | "lost" | "ended"
  readonly text: string
}

/** `lostSince` null: connected. */
export function liveState(lostSince: number | null): ConnectionState {
  return lostSince === null
    ? { kind: "live", text: "Live" }
    : { kind: "lost", text: `Not live since ${clock(lostSince)}` }
}

interface ShellProps {
  readonly session: Session
  readonly page: string
  readonly connection?: ConnectionState
  readonly commands?: readonly Command[]
  readonly children: ReactNode
}

const pages: readonly {
  readonly id: string
  readonly label: string
  readonly icon: IconName
  readonly path: string
}[] = [
  { id: "now", label: "Now", icon: "now", path: "/now" },
  { id: "jobs", label: "Jobs", icon: "jobs", path: "/jobs" },
  { id: "workflows", label: "Workflows", icon: "workflow", path: "/workflows" },
  { id: "pipelines", label: "Pipelines", icon: "pipeline", path: "/pipelines" },
  { id: "capacity", label: "Capacity", icon: "capacity", path: "/capacity" },
  { id: "schedules", label: "Schedules", icon: "schedule", path: "/schedules" },
]

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)

export function Shell({ session, page, connection, commands = [], children }: ShellProps) {
  const [open, setOpen] = useState<"palette" | "keys" | "owner" | null>(null)
  const other = viewedOwner()
  const things = useThings(session) ?? 0
  /** What needs a person, beside the name of the page. */
  const number = (id: string) =>
    id === "now" &&
    things > 0 && (
      <span className="nn">
        {count(things)}
        <span className="sr"> {things === 1 ? "thing needs" : "things need"} a person</span>
      </span>
    )
  useEffect(focusMain)
  useKeys({
    "mod+k": () => setOpen("palette"),
    "?": () => setOpen("keys"),
    "alt+1": () => go(pageHref("/now")),
    "alt+2": () => go(pageHref("/jobs")),
    "alt+3": () => go(pageHref("/workflows")),
    "alt+4": () => go(pageHref("/pipelines")),
    "alt+5": () => go(pageHref("/capacity")),
    "alt+6": () => go(pageHref("/schedules")),
  })
  const close = () => setOpen(null)
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <a className="brand" href={pageHref("/jobs")}>
          <Brand />
          Umbra
        </a>
        {session.owner !== null && (
          <span className="env" title="The owner whose jobs are shown">
            {other ?? session.owner}
          </span>
        )}
        <nav className="nav" aria-label="Pages">
          {pages.map(({ id, label, path }) => (
            <a key={id} href={pageHref(path)} aria-current={id === page ? "page" : undefined}>
              {label}
              {number(id)}
            </a>
          ))}
        </nav>
        <button className="find" type="button" onClick={() => setOpen("palette")}>
          <Icon name="search" />
          <span>Jump to or run</span>
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
        <Person session={session} onOwner={() => setOpen("owner")} />
      </header>
      {children}
      <nav className="tabs-s" aria-label="Pages">
        {pages.map(({ id, label, icon, path }) => (
          <a key={id} href={pageHref(path)} aria-current={id === page ? "page" : undefined}>
            <Icon name={icon} />
            {label}
            {number(id)}
          </a>
        ))}
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

export async function leave(): Promise<void> {
  await logout().catch(() => {})
  viewOwner(null)
  window.dispatchEvent(new Event("umbra-login"))
}

function Person({ session, onOwner }: { session: Session; onOwner: () => void }) {
  const [isOpen, setOpen] = useState(false)
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
            {session.login === "open" ? "No login needed" : (session.name ?? "Logged in")}
            <br />
            owner {session.owner}, scopes {session.scopes.join(", ")}
          </p>
          <a href={pageHref("/settings")} onClick={() => setOpen(false)}>
            Settings
          </a>
          {session.login !== "open" && session.sees_other_owners && (
            <button type="button" onClick={onOwner}>
              View another owner…
            </button>
          )}
          {viewedOwner() !== null && (
            <button
              type="button"
              onClick={() => {
                viewOwner(null)
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
      title="View the jobs of another owner"
      action="Look"
      onClose={onClose}
      onSubmit={form => {
        const owner = String(form.get("owner")).trim()
        if (owner === "") return
        viewOwner(owner)
        window.location.assign(pageHref("/jobs"))
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
