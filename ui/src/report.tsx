/** A replay file: the page of one job with its facts inside. It makes no request, and works from a disk. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import type { CompiledGraph, FactRecord } from "../../src/core/index.ts"
import { JobView } from "./job/job-view.tsx"
import { clock } from "./model/format.ts"
import type { JsonSource, JsonValue } from "./model/json/document.ts"
import { computeLayout, type Layout } from "./model/layout/layout.ts"
import type { Connection, JobSource } from "./model/source.ts"
import { Timeline } from "./model/timeline.ts"
import { Brand, drawSymbols, Icon } from "./shell/icons.tsx"
import { Empty } from "./shell/states.tsx"
import { applyTheme, toggleTheme } from "./shell/theme.ts"
import "./styles/main.css"

interface ReplayData {
  readonly format: number
  readonly created_at: string
  readonly job: { readonly job_id: string; readonly workflow: string; readonly status: string }
  readonly graph: CompiledGraph
  readonly facts: readonly FactRecord[]
  readonly payloads?: { readonly [place: string]: JsonValue }
}

class FileSource implements JobSource {
  readonly jobId: string
  readonly timeline: Timeline
  readonly connection: Connection = { kind: "file" }
  readonly error = null
  readonly version = 0
  readonly hasLogs = false
  readonly config = null
  readonly items = null
  readonly why = null
  readonly routes = null
  readonly artifacts = null
  readonly now: number
  readonly #payloads: NonNullable<ReplayData["payloads"]>

  constructor({ job, graph, facts, payloads, created_at }: ReplayData) {
    this.jobId = job.job_id
    this.timeline = new Timeline(graph)
    this.timeline.append(facts)
    this.now = Date.parse(created_at)
    this.#payloads = payloads ?? {}
  }

  subscribe(): () => void {
    return () => {}
  }

  retryNow(): void {}

  payload(seq: number, field: string): JsonSource | null {
    const value = this.#payloads[`${seq}/${field}`]
    return value === undefined ? null : { value }
  }
}

const layouts = new WeakMap<CompiledGraph, Promise<Layout>>()

function layout(graph: CompiledGraph): Promise<Layout> {
  const known = layouts.get(graph) ?? Promise.resolve(computeLayout(graph))
  layouts.set(graph, known)
  return known
}

function Report({ data, source }: { data: ReplayData; source: FileSource }) {
  return (
    <>
      <header className="top">
        <span className="brand">
          <Brand />
          Umbra
        </span>
        <span className="env">Replay file, made {clock(Date.parse(data.created_at))}</span>
        <span className="sp" />
        <button
          className="btn ghost icon-only"
          type="button"
          aria-label="Change the theme"
          onClick={toggleTheme}
        >
          <Icon name="sun" />
        </button>
      </header>
      <JobView
        source={source}
        timeline={source.timeline}
        layout={layout}
        canSignal={false}
        actions={() => null}
        onCommand={() => {}}
      />
    </>
  )
}

applyTheme()
drawSymbols()
const text = document.getElementById("umbra-data")?.textContent
const root = createRoot(document.getElementById("root")!)
if (text == null) {
  root.render(
    <Empty title="This page has no job inside">
      <p>umbra report JOB -o job.html writes one that has.</p>
    </Empty>,
  )
} else {
  const data = JSON.parse(text) as ReplayData
  document.title = `${data.job.workflow} ${data.job.status} · Umbra`
  root.render(
    <StrictMode>
      <QueryClientProvider client={new QueryClient()}>
        <Report data={data} source={new FileSource(data)} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
