/** Why a node, or the job, is in its state: one sentence, from the state of one moment. */
import type { CompiledNode, GraphView, NodeView, WaitingOn } from "../../../src/core/index.ts"
import { clock, count, counted, duration, elapsed } from "./format.ts"

/** A text with parts that stand out, ids of nodes and jobs that can be opened, and commands that can be copied. */
export type Part =
  | string
  | { readonly strong: string }
  | { readonly node: string }
  | { readonly job: string }
  | { readonly command: string }
export type Sentence = readonly Part[]

const strong = (text: string | number): Part => ({ strong: String(text) })

export function plain(sentence: Sentence): string {
  return sentence
    .map(part => {
      if (typeof part === "string") return part
      return Object.values(part)[0]
    })
    .join("")
}

export function whySentence(node: NodeView, compiled: CompiledNode, now: number): Sentence {
  switch (node.status) {
    case "PENDING":
      return waitSentence(node, now)
    case "SKIPPED":
      return ["Skipped: its condition was false, or a node that it depends on was skipped."]
    case "CANCELLED":
      return [`Cancelled${node.reason === undefined ? "." : `: ${node.reason}`}`]
    case "FAILED":
      return failedSentence(node)
    case "COMPLETED":
      return doneSentence(node)
    case "RUNNING":
      return runningSentence(node, now)
    default:
      return waitSentence(node, now, compiled)
  }
}

function doneSentence(node: NodeView): Sentence {
  const ran = node.duration_ms
  const first = ran === null ? ["Done"] : ["Done in ", strong(duration(ran))]
  const waited =
    node.waited_ms === null || node.items !== undefined ? [] : [`, then waited ${duration(node.waited_ms)}`]
  const tries = node.attempt > 1 ? `, at attempt ${node.attempt}.` : "."
  return [...first, ...waited, tries]
}

function failedSentence(node: NodeView): Sentence {
  const cause = node.error?.node
  if (cause !== undefined && cause !== node.id) return ["Failed because ", { node: cause }, " failed."]
  const tries = node.max_attempts > 1 ? ` at attempt ${node.attempt} of ${node.max_attempts}` : ""
  return [
    "Failed",
    tries,
    node.error === null ? "." : [": ", node.error.code].join(""),
    node.error ? "." : "",
  ]
}

function runningSentence(node: NodeView, now: number): Sentence {
  const { items, progress } = node
  if (items !== undefined) {
    const waiting = (items.queued ?? 0) + (items.waiting ?? 0) + (items.pending ?? 0)
    return [
      "Runs: ",
      strong(`${count(items.running ?? 0)} of ${count(items.total)}`),
      ` items are at work, ${count(waiting)} wait, ${count(items.completed ?? 0)} are done.`,
    ]
  }
  const since = node.started_at === null ? "" : ` for ${elapsed(now - node.started_at)}`
  const where = node.worker === null ? [] : [" on worker ", strong(node.worker)]
  const percent = progress?.percent == null ? "" : `, ${Math.round(progress.percent)} %`
  const message = progress?.message == null ? "" : ` (${progress.message})`
  return ["Runs", ...where, since, percent, message, "."]
}

function waitSentence(node: NodeView, now: number, compiled?: CompiledNode): Sentence {
  const waiting = node.waiting_on
  if (waiting === null) return ["No reason is known."]
  const sentence = reasonSentence(waiting, node, now)
  const isLate = compiled !== undefined && waiting.kind === "retry" && node.error !== null
  return isLate ? [...sentence, ` Last error: ${node.error!.code} ${node.error!.message}`] : sentence
}

export function reasonSentence(waiting: WaitingOn, node: NodeView, now: number): Sentence {
  switch (waiting.kind) {
    case "dependencies": {
      const shown = waiting.nodes.slice(0, 6)
      const more = waiting.nodes.length - shown.length
      return [
        "Waits for ",
        ...shown.flatMap((id, n): Part[] => (n === 0 ? [{ node: id }] : [", ", { node: id }])),
        more > 0 ? ` and ${counted(more, "other")}.` : ".",
      ]
    }
    case "retry":
      return [
        `Waits for attempt ${node.attempt} of ${node.max_attempts} in `,
        strong(elapsed(Math.max(0, waiting.at - now))),
        `, at ${clock(waiting.at, now)}.`,
      ]
    case "timer":
      return [
        "Sleeps until ",
        strong(clock(waiting.until, now)),
        `, ${elapsed(Math.max(0, waiting.until - now))} from then.`,
      ]
    case "signal":
      return [
        "Waits for signal ",
        strong(waiting.name),
        waiting.until === null
          ? "."
          : ` until ${clock(waiting.until, now)}, then ${waiting.default === undefined ? "it fails" : "it continues with its default"}.`,
      ]
    case "child":
      return [
        "Waits for job ",
        { job: waiting.job_id },
        `, ${waiting.workflow} v${waiting.workflow_version}.`,
      ]
    case "items":
      return [
        strong(counted(waiting.waiting, "item")),
        ` ${waiting.waiting === 1 ? "waits" : "wait"}: ${waitsText(waiting.waits)}.`,
      ]
    case "external": {
      const polls = waiting.polls === 0 ? "not polled yet" : `polled ${counted(waiting.polls, "time")}`
      const next = waiting.next_poll_at === null ? "" : `, next at ${clock(waiting.next_poll_at, now)}`
      const failed =
        waiting.poll_error === null
          ? ""
          : ` The last poll failed: ${waiting.poll_error.code} ${waiting.poll_error.message}`
      return [
        strong(waiting.provider),
        ` has it (${waiting.external_id}): no result yet, ${polls}${next}.${failed}`,
      ]
    }
    case "slot":
      return [
        "Waits for a slot of ",
        strong(waiting.provider),
        waiting.position === null ? "." : `: place ${waiting.position}.`,
      ]
    case "executions":
      return [
        "Waits for a free execution: ",
        strong(waiting.limit),
        ` executions of pipeline ${waiting.pipeline} are running.`,
      ]
    case "rate":
      return [
        "Waits for its place in the rate of ",
        strong(waiting.provider),
        waiting.until === null ? "." : `, not before ${clock(waiting.until, now)}.`,
      ]
    case "start_time":
      return [
        "The job starts in ",
        strong(elapsed(Math.max(0, waiting.until - now))),
        `, at ${clock(waiting.until, now)}.`,
      ]
    case "paused":
      return [...pauseSentence(waiting, now), " It continues when the job is resumed."]
    case "worker":
      return workerSentence(waiting, now)
  }
}

/** Since when the job is paused, by whom and why. */
function pauseSentence({ at, by, reason }: NonNullable<GraphView["paused"]>, now: number): Sentence {
  return [
    "The job is ",
    strong("paused"),
    ` since ${clock(at, now)}`,
    by === null ? "" : ` by ${by}`,
    reason === null ? "." : `: ${reason.replace(/\.$/, "")}.`,
  ]
}

function workerSentence(waiting: Extract<WaitingOn, { kind: "worker" }>, now: number): Sentence {
  const { handler, reason, position, queued, last_worker, last_seen_at, cause, adapters } = waiting
  const name = waiting.provider === undefined ? handler : `${handler} and provider ${waiting.provider}`
  switch (reason) {
    case "busy":
      return [
        "Ready: ",
        strong(position === undefined ? "in the queue" : `place ${position}`),
        queued === undefined ? "" : ` of ${count(queued)}`,
        `. All workers with handler ${name} are busy.`,
      ]
    case "none":
      return [
        "No worker has handler ",
        strong(name),
        ".",
        last_worker == null
          ? ""
          : ` ${last_worker} had it${last_seen_at == null ? "" : ` until ${clock(last_seen_at, now)}`}.`,
        cause === undefined ? "" : ` ${cause}`,
      ]
    case "refused":
      return ["A worker rejected the task: ", cause ?? "no reason was given", "."]
    case "owner_away":
      return [
        "No live engine owns this job, so nothing is dispatched.",
        cause === undefined ? "" : ` ${cause}`,
      ]
    default:
      return adapters === undefined
        ? ["Ready for a worker with handler ", strong(name), "."]
        : ["Ready: the adapters ", strong(adapters.join(", ")), " are missing in the process that owns it."]
  }
}

function waitsText(waits: { readonly [kind: string]: number | undefined }): string {
  const names: { readonly [kind: string]: string } = {
    timer: "for a time",
    signal: "for a signal",
    external: "for a provider",
    child: "for a child job",
    retry: "for a retry",
    slot: "for a slot",
    executions: "for a free execution",
    paused: "for the job to be resumed",
  }
  return Object.entries(waits)
    .map(([kind, number]) => `${count(number ?? 0)} ${names[kind] ?? kind}`)
    .join(", ")
}

/** What an unfinished job waits for, in few words; null: it runs, or has ended. */
export function jobSentence(view: GraphView, now: number): Sentence | null {
  if (view.paused !== undefined) return pausedJob(view, view.paused, now)
  const groups = new Map<string, { count: number; sample: NodeView }>()
  for (const node of view.nodes) {
    if (node.waiting_on === null || node.waiting_on.kind === "dependencies") continue
    const key = groupKey(node.waiting_on)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, { count: 1, sample: node })
    else known.count++
  }
  const [largest] = [...groups.values()].sort((a, b) => b.count - a.count)
  if (largest === undefined) return null
  const { sample } = largest
  const total = [...groups.values()].reduce((sum, group) => sum + group.count, 0)
  const others = total - largest.count
  return [
    { node: sample.id },
    largest.count === 1 ? ": " : ` and ${counted(largest.count - 1, "other")}: `,
    ...reasonSentence(sample.waiting_on!, sample, now),
    others === 0 ? "" : ` ${counted(others, "node")} ${others === 1 ? "waits" : "wait"} for something else.`,
  ]
}

function pausedJob(view: GraphView, paused: NonNullable<GraphView["paused"]>, now: number): Sentence {
  const running = view.nodes.filter(({ status }) => status === "RUNNING").length
  return [
    ...pauseSentence(paused, now),
    running === 0
      ? ""
      : ` ${counted(running, "node")} still ${running === 1 ? "runs" : "run"} to ${running === 1 ? "its" : "their"} end.`,
  ]
}

function groupKey(waiting: WaitingOn): string {
  switch (waiting.kind) {
    case "slot":
    case "external":
      return `${waiting.kind} ${waiting.provider}`
    case "worker":
      return `worker ${waiting.handler}`
    default:
      return waiting.kind
  }
}
