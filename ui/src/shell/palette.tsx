/** The command palette: actions on what is open, jobs by id or error text, workflows, nodes. */
import { useQuery } from "@tanstack/react-query"
import { type KeyboardEvent, useEffect, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import type { Session } from "../api/session.ts"
import type { JobPage } from "../api/types.ts"
import { clock, shortId } from "../model/format.ts"
import type { Command } from "./command.ts"
import { Dialog } from "./dialog.tsx"
import { Icon, StateMark } from "./icons.tsx"
import { go, pageHref } from "./router.ts"
import { toggleTheme } from "./theme.ts"

const prefixes = [
  [">", "job"],
  ["#", "workflow"],
  ["@", "node"],
  ["!", "error text"],
  [":", "action"],
] as const
const MOST = 8
const jobId = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

interface PaletteProps {
  readonly commands: readonly Command[]
  readonly session: Session
  readonly onClose: () => void
  readonly onKeys: () => void
}

export default function Palette({ commands, onClose, onKeys }: PaletteProps) {
  const [text, setText] = useState("")
  const [place, setPlace] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  const typed = text.trim()
  const prefix = prefixes.find(([sign]) => typed.startsWith(sign))?.[0] ?? null
  const words = (prefix === null ? typed : typed.slice(1)).trim().toLowerCase()
  const found = useFound(words, prefix)
  const general: readonly Command[] = [
    {
      group: "Everywhere",
      prefix: ":",
      icon: "now",
      label: "Now",
      detail: "page, what needs a person",
      key: "Alt 1",
      run: () => go(pageHref("/now")),
    },
    {
      group: "Everywhere",
      prefix: ":",
      icon: "jobs",
      label: "Jobs",
      detail: "page",
      key: "Alt 2",
      run: () => go(pageHref("/jobs")),
    },
    {
      group: "Everywhere",
      prefix: ":",
      icon: "octagon",
      label: "Failed jobs",
      detail: "page",
      run: () => go(pageHref("/jobs", { status: "FAILED" })),
    },
    {
      group: "Everywhere",
      prefix: ":",
      icon: "schedule",
      label: "Schedules",
      detail: "page",
      run: () => go(pageHref("/schedules")),
    },
    {
      group: "Everywhere",
      prefix: ":",
      icon: "key",
      label: "Settings",
      detail: "page",
      run: () => go(pageHref("/settings")),
    },
    { group: "Everywhere", prefix: ":", icon: "sun", label: "Change the theme", run: toggleTheme },
    { group: "Everywhere", prefix: ":", icon: "help", label: "Keyboard shortcuts", key: "?", run: onKeys },
  ]
  const matching = [...commands, ...general].filter(
    command =>
      (prefix === null || command.prefix === prefix) &&
      words
        .split(/\s+/)
        .every(word => `${command.label} ${command.detail ?? ""}`.toLowerCase().includes(word)),
  )
  const shown = limited([...matching, ...found])
  const current = Math.min(place, shown.length - 1)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text begins at the first entry.
  useEffect(() => setPlace(0), [typed])
  useEffect(() => {
    list.current?.querySelectorAll('[role="option"]')[current]?.scrollIntoView({ block: "nearest" })
  }, [current])
  const run = (command: Command | undefined) => {
    if (command === undefined) return
    onClose()
    command.run()
  }
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      setPlace((current + step + shown.length) % Math.max(1, shown.length))
    } else if (event.key === "Enter") {
      event.preventDefault()
      run(shown[current])
    }
  }
  return (
    <Dialog label="Command palette" className="palette" onClose={onClose}>
      <div className="pin">
        <Icon name="search" />
        <input
          value={text}
          onChange={event => {
            const { value } = event.target
            // An id that was pasted opens at once.
            if (jobId.test(value.trim()))
              run({ group: "", prefix: ">", label: "", run: () => go(pageHref(`/jobs/${value.trim()}`)) })
            else setText(value)
          }}
          onKeyDown={press}
          placeholder="Jump to a job, workflow or node, or run a command"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={shown.length === 0 ? undefined : `po-${current}`}
          aria-label="Search"
          spellCheck={false}
        />
        <button className="btn ghost sm" type="button" onClick={onClose}>
          <kbd>Esc</kbd>
          <span className="sr"> closes</span>
        </button>
      </div>
      <div className="plist" id="palette-list" role="listbox" aria-label="Results" ref={list}>
        {shown.map((command, n) => (
          <div key={`${command.group} ${command.label} ${command.detail ?? ""}`} role="presentation">
            {shown[n - 1]?.group !== command.group && (
              <div className="pg" role="presentation">
                {command.group}
              </div>
            )}
            <div
              className="po"
              id={`po-${n}`}
              role="option"
              tabIndex={-1}
              aria-selected={n === current}
              onClick={() => run(command)}
              onPointerMove={() => setPlace(n)}
            >
              {command.status !== undefined ? (
                <StateMark status={command.status} />
              ) : (
                <Icon name={command.icon ?? "right"} />
              )}
              <span className="l">{command.label}</span>
              <span className="d">{command.detail}</span>
              {command.key?.split(" ").map(key => (
                <kbd key={key}>{key}</kbd>
              ))}
            </div>
          </div>
        ))}
        {shown.length === 0 && <p className="none">Nothing matches.</p>}
      </div>
      <footer>
        {prefixes.map(([sign, name]) => (
          <span key={sign}>
            <kbd>{sign}</kbd> {name}
          </span>
        ))}
      </footer>
    </Dialog>
  )
}

function limited(commands: readonly Command[]): Command[] {
  const counts = new Map<string, number>()
  return commands.filter(({ group }) => {
    const number = (counts.get(group) ?? 0) + 1
    counts.set(group, number)
    return number <= MOST
  })
}

/** Jobs and workflows of the server. */
function useFound(words: string, prefix: string | null): readonly Command[] {
  const wantsWorkflows = prefix === null || prefix === "#"
  const wantsJobs = prefix === ">" || (prefix === null && words === "")
  const wantsErrors = prefix === "!" && /\p{L}{2}/u.test(words)
  const workflows = useQuery({
    queryKey: ["workflows"],
    queryFn: ({ signal }) =>
      ask<{ readonly workflows: readonly { readonly name: string; readonly version: number }[] }>(
        "/workflows",
        { query: { limit: 100 }, signal },
      ),
    enabled: wantsWorkflows,
    staleTime: 60_000,
  })
  const jobs = useQuery({
    queryKey: ["palette", wantsErrors ? words : ""],
    queryFn: ({ signal }) =>
      ask<JobPage>("/jobs", {
        query: { limit: 20, ...(wantsErrors ? { error_text: words, status: "FAILED" } : {}) },
        signal,
      }),
    enabled: wantsJobs || wantsErrors,
    staleTime: 10_000,
  })
  const named = (workflows.data?.workflows ?? [])
    .filter(
      ({ name }) => wantsWorkflows && words.split(/\s+/).every(word => name.toLowerCase().includes(word)),
    )
    .map(
      ({ name, version }): Command => ({
        group: "Workflows",
        prefix: "#",
        icon: "workflow",
        label: name,
        detail: `jobs of this workflow, newest version ${version}`,
        run: () => go(pageHref("/jobs", { workflow: name })),
      }),
    )
  const newest = (wantsJobs || wantsErrors ? (jobs.data?.jobs ?? []) : [])
    .filter(
      job => wantsErrors || words === "" || `${job.workflow} ${job.job_id}`.toLowerCase().includes(words),
    )
    .map(
      (job): Command => ({
        group: "Jobs",
        prefix: ">",
        status: job.status,
        label: job.workflow,
        detail: `${shortId(job.job_id)} · ${job.status.toLowerCase()} · ${clock(Date.parse(job.created_at))}${job.error === null ? "" : ` · ${job.error.code} ${job.error.message}`}`,
        run: () => go(pageHref(`/jobs/${job.job_id}`)),
      }),
    )
  return [...newest, ...named]
}
