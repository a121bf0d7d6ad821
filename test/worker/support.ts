/** A worker of its own for a test: what it was told, what it reported. */
import { LocalBroker, type LocalBrokerOptions } from "../../src/broker/local.ts"
import type { Outcome, StartReport, Task } from "../../src/broker/port.ts"
import type { Json } from "../../src/core/json.ts"
import { logTo } from "../../src/log.ts"
import type { Handler } from "../../src/worker/handler.ts"
import { HandlerRegistry } from "../../src/worker/registry.ts"
import { TaskRunner, type TaskRunnerOptions } from "../../src/worker/runner.ts"

let jobs = 0

export function task(handler: string, more: Partial<Task> = {}): Task {
  jobs += 1
  return {
    jobId: `job-${jobs}`,
    node: 0,
    nodeId: "node",
    shownAttempt: 1,
    attempt: 1,
    handler,
    owner: "owner",
    workflow: "workflow",
    workflowVersion: 1,
    traceparent: null,
    priority: 0,
    config: {},
    late: [],
    input: null,
    parents: () => ({}),
    timeoutSeconds: null,
    announce: false,
    ...more,
  }
}

export interface Report {
  readonly type: "started" | "progress" | "preview" | "finished" | "aborted" | "log"
  readonly task?: Task
  readonly data: unknown
}

export type WorkerOptions = Partial<TaskRunnerOptions> &
  Partial<LocalBrokerOptions> & {
    /** What `started` waits for. */
    readonly durable?: Promise<void> | ((task: StartReport) => Promise<void>)
    /** Called when progress is reported. */
    readonly progressed?: () => void
  }

export function worker(handlers: readonly Handler[], options: WorkerOptions = {}) {
  const reports: Report[] = []
  const waiting = new Map<Task, (outcome: Outcome) => void>()
  const log = logTo((level, fields, message) =>
    reports.push({ type: "log", data: { level, fields, message } }),
  )
  const runner = new TaskRunner({ handlers: new HandlerRegistry(handlers), log, ...options })
  const broker = new LocalBroker({
    runner,
    concurrency: runner.settings.concurrency,
    ...options,
    events: {
      started: async (task, name) => {
        reports.push({ type: "started", task: task as Task, data: name })
        await (typeof options.durable === "function" ? options.durable(task) : options.durable)
      },
      progress: (task, data) => {
        reports.push({ type: "progress", task: task as Task, data })
        options.progressed?.()
      },
      preview: (task, data) => reports.push({ type: "preview", task: task as Task, data }),
      finished: (task, outcome) => {
        reports.push({ type: "finished", task: task as Task, data: outcome })
        waiting.get(task as Task)?.(outcome)
      },
      aborted: (task, times, usage) =>
        reports.push({ type: "aborted", task: task as Task, data: { times, usage } }),
    },
  })
  const run = (one: Task): Promise<Outcome> =>
    new Promise(resolve => {
      waiting.set(one, resolve)
      broker.dispatch(one)
    })
  const of = (type: Report["type"]) => reports.filter(report => report.type === type)
  return { broker, runner, run, reports, of }
}

/** The fault of an outcome that must be one. */
export function faultIn(outcome: Outcome) {
  if (outcome.type !== "failed") throw new Error(`expected a fault, not ${JSON.stringify(outcome)}`)
  return outcome.fault
}

export function outputIn(outcome: Outcome): Json {
  if (outcome.type !== "completed") throw new Error(`expected an output, not ${JSON.stringify(outcome)}`)
  return outcome.output
}

/** A promise that is settled from outside. */
export function gate<T = void>() {
  let open: (value: T) => void = () => {}
  const promise = new Promise<T>(resolve => {
    open = resolve
  })
  return { promise, open }
}

/** After every microtask and immediate that is due by now. */
export const settled = () => new Promise<void>(resolve => setImmediate(() => setImmediate(resolve)))
