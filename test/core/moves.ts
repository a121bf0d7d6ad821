/** What an action asks of the core and, in the same breath, of the model. */
import type { Command } from "../../src/core/commands.ts"
import type { Graph } from "../../src/core/plan.ts"
import type { Action, Result } from "./actions.ts"
import type { Model } from "./model.ts"
import type { JobResult, ModelFault, ModelNode, ModelWait } from "./model-node.ts"
import { submittedOf } from "./moves-external.ts"

export const lossLimit = 3

export interface Move {
  readonly command: Command
  /** The job's own result, if the command completes the job. */
  readonly result?: JobResult
  /** Does the same to the model; false: the model refuses. */
  readonly inModel: () => boolean
  /** What the engine knows of the deaths of other nodes. */
  readonly otherDiedAt?: number
}

export interface Stage {
  readonly model: Model
  readonly graph: Graph
  readonly now: number
  readonly random: number
  readonly pool: ReadonlySet<string>
  readonly everDispatched: ReadonlySet<string>
  /** External ids, of every operation there ever was. */
  readonly operations: readonly string[]
  /** `id#attempt` of the tasks of the pool whose handler has begun. */
  begun(): ReadonlySet<string>
  /** Of the tasks of the pool: those that a worker has begun, or that are known to run. */
  kept(): ReadonlySet<string>
  /** A text that was not there before. */
  fresh(what: string): string
}

type Told = Exclude<Action, { do: "pass" } | { do: "answer" } | { do: "news" }>

const jobFault: ModelFault = { code: "E999", message: "The job cannot go on.", retryable: false }

/** The shell renders the job's own output for the case that the last node is about to be done. */
export function jobResultOf(stage: Stage, kind: "plain" | "output" | "fault"): JobResult {
  if (kind === "plain" || stage.model.unfinished().length !== 1) return {}
  return kind === "output" ? { jobOutput: stage.fresh("job") } : { jobFault }
}

export function moveOf(stage: Stage, action: Told): Move {
  const { model, now } = stage
  const unlessOver = (effect: () => void) => () => {
    if (model.isOver()) return false
    effect()
    return true
  }
  switch (action.do) {
    case "signal": {
      const { name } = action
      const data = stage.fresh("signal")
      const result = jobResultOf(stage, "output")
      return {
        command: { type: "signal", name, data },
        result,
        inModel: unlessOver(() => model.signalled(name, data, result)),
      }
    }
    case "grant": {
      const node = action.pick % stage.graph.nodes.length
      const { id } = stage.graph.nodes[node]!
      return { command: { type: "grant_slot", node }, inModel: () => model.slotGranted(id) }
    }
    case "cancel":
      return { command: { type: "cancel", reason: "enough" }, inModel: unlessOver(() => model.cancelled()) }
    case "fail_job":
      return {
        command: { type: "fail_job", fault: jobFault },
        inModel: () => model.jobFailed(jobFault),
      }
    case "settle":
      return { command: { type: "settle" }, inModel: () => model.settled() }
    case "retry":
      return { command: { type: "retry" }, inModel: () => model.retried(now) }
    case "delete":
      return { command: { type: "delete" }, inModel: () => model.remove() }
    case "hand_over":
      return { command: { type: "hand_over" }, inModel: () => model.handedOver(stage.begun()) }
    case "pause": {
      const kept = stage.kept()
      const refs = [...kept].map(task => ({
        node: stage.graph.nodes.findIndex(({ id }) => id === task.split("#")[0]),
      }))
      return {
        command: { type: "pause", by: "ada", reason: "wait", kept: refs },
        inModel: () => model.pause("ada", kept, now),
      }
    }
    case "resume":
      return { command: { type: "resume", by: "bob" }, inModel: () => model.resume() }
    case "describe": {
      const labels = now % 2000 === 0 ? { team: `t${now % 3}` } : undefined
      const note = now % 3000 === 0 ? null : `n${now % 5}`
      return {
        command: { type: "describe", note, ...(labels === undefined ? {} : { labels }) },
        inModel: () => model.describe(labels, note),
      }
    }
    case "reschedule": {
      // Sometimes the time that it has, and sometimes one that has passed.
      const [startAt, delayMs] = [now + 60_000 - (now % 90_000), (now % 7) * 5000]
      return {
        command: { type: "reschedule", by: "eve", ...(now % 2000 === 0 ? { delayMs } : { startAt }) },
        inModel: () => model.rescheduled(now % 2000 === 0 ? now + delayMs : startAt, now),
      }
    }
    case "crash":
      throw new Error("a crash is no command")
  }
}

/** null: there is no such task. */
export function answerOf(
  stage: Stage,
  { from, pick, result }: Extract<Action, { do: "answer" }>,
): Move | null {
  const { nodes } = stage.graph
  if (from === "forged")
    return resultOf(stage, { node: pick % (nodes.length + 1), attempt: pick % 5 }, result)
  const tasks = [...(from === "live" ? stage.pool : stage.everDispatched)]
  const [id, attempt] = tasks[pick % Math.max(1, tasks.length)]?.split("#") ?? []
  if (id === undefined) return null
  return resultOf(stage, { node: nodes.findIndex(node => node.id === id), attempt: Number(attempt) }, result)
}

/** Longer than an attempt can have lasted, too: the start is clamped. */
const someTimes = ({ now }: Stage, attempt: number) => ({
  worker: `w${attempt % 2}`,
  heldMs: now % 3,
  ranMs: (attempt * 700) % 2500,
})

function resultOf(stage: Stage, task: { node: number; attempt: number }, result: Result): Move {
  const { model, now } = stage
  const id = stage.graph.nodes[task.node]?.id ?? "nobody"
  const ifWanted = (waitingToo: boolean, effect: () => void) => () => {
    if (!model.accepts(id, task.attempt, waitingToo)) return false
    effect()
    return true
  }
  const isMeant = (node: ModelNode) => node.spec.id === id && node.attempt === task.attempt
  switch (result.kind) {
    case "completed": {
      const usage = result.usage ? { usage: { tokens: 7 } } : {}
      const job = jobResultOf(stage, result.job)
      const output = stage.fresh("output")
      return {
        command: { type: "completed", ...task, output, times: someTimes(stage, task.attempt), ...usage },
        result: job,
        inModel: ifWanted(true, () => model.completed(id, output, { ...usage, ...job })),
      }
    }
    case "failed": {
      const asked = result.retryAfter === null ? {} : { retry_after_seconds: result.retryAfter }
      const fault = { code: "E401", message: "no luck", retryable: result.retryable, ...asked }
      return {
        command: {
          type: "failed",
          ...task,
          fault,
          times: someTimes(stage, task.attempt),
          usage: { tokens: 2 },
        },
        inModel: ifWanted(true, () => {
          model.used({ tokens: 2 })
          model.failed(id, fault, now, stage.random)
        }),
      }
    }
    case "timer":
    case "child":
    case "signal": {
      const waiting = waitingOf(stage, result)
      const extra = jobResultOf(stage, "output")
      return {
        command: { type: "waiting", ...task, waiting, times: someTimes(stage, task.attempt) },
        result: extra,
        inModel: ifWanted(false, () => model.waits(id, waiting, extra)),
      }
    }
    case "slot":
      return {
        command: { type: "await_slot", ...task, provider: "acme" },
        inModel: () => model.accepts(id, task.attempt, false) && model.awaitsSlot(id, "acme"),
      }
    case "lost":
      return {
        command: { type: "recover", only: [task] },
        inModel: () => model.recovered(now, lossLimit, isMeant),
      }
    case "returned":
      return {
        command: { type: "hand_over", only: [task] },
        inModel: () => model.handedOver(stage.begun(), isMeant),
      }
    case "aborted":
      return {
        command: {
          type: "aborted",
          ...task,
          times: someTimes(stage, task.attempt),
          usage: { tokens: 1 },
        },
        inModel: () => model.abortReported(id, task.attempt, { tokens: 1 }),
      }
    case "submitted":
      return submittedOf(stage, task, result)
    case "preview": {
      const data = stage.fresh("preview")
      return {
        command: { type: "preview", ...task, data },
        inModel: ifWanted(true, () => model.previewed(id, data)),
      }
    }
    case "skip":
      return {
        command: { type: "skip", ...task },
        inModel: () => model.accepts(id, task.attempt, false) && model.skipped(id),
      }
    case "started": {
      const { alone, otherDied } = result
      const otherDiedAt = otherDied ? now : Number.NEGATIVE_INFINITY
      return {
        command: { type: "started", ...task, worker: "w1", ...(alone ? { alone } : {}) },
        inModel: () =>
          model.accepts(id, task.attempt, false) && model.started(id, now, { alone, otherDiedAt }),
        otherDiedAt,
      }
    }
    case "joined":
      return {
        command: { type: "started", ...task, worker: "w1", alone: false },
        inModel: () => model.accepts(id, task.attempt, false) && model.joined(id),
      }
  }
}

function waitingOf(stage: Stage, result: Extract<Result, { kind: "timer" | "signal" | "child" }>): ModelWait {
  if (result.kind === "child")
    return { kind: "child", job_id: stage.fresh("child"), workflow: "inner", workflow_version: 1 }
  if (result.kind === "timer") {
    const until = stage.now + result.seconds * 1000
    return { kind: "timer" as const, until, output: stage.fresh("slept") }
  }
  const waiting = { kind: "signal" as const, name: result.name }
  if (result.seconds === null) return waiting
  const until = stage.now + result.seconds * 1000
  return { ...waiting, until, ...(result.byDefault ? { default: stage.fresh("default") } : {}) }
}
