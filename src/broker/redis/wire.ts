/** Encodes tasks and reports as the fields of stream entries. */
import type { ArtifactAnswer, ArtifactQuestion } from "../../core/artifacts.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { Progress } from "../../core/view/view.ts"
import type { AttemptTimes, KnownRun, Outcome, Task } from "../port.ts"

export type Fields = readonly string[]

/**
 * `epoch`: of the task's partition when it was sent. Tasks and reports are not copied here: an object of many fields that
 * is copied by spreading becomes a hash table of several KB.
 */
export function encodeTask(task: Task, { name, epoch }: TaskLabel): Fields {
  // JSON leaves out `parents`, which is a function.
  const text = `${JSON.stringify(task).slice(0, -1)},"parents":${JSON.stringify(task.parents())}}`
  return ["name", name, "epoch", String(epoch), "task", text]
}

export function decodeTask(fields: Fields): Task {
  const task = JSON.parse(field(fields, "task") ?? "null")
  const { parents } = task
  task.parents = () => parents
  return task
}

export interface TaskLabel {
  readonly name: string
  readonly epoch: number
}

/** Decodes only the label: a scan of a stream does not parse the tasks. null: the entry is not a task. */
export function decodeLabel(fields: Fields): TaskLabel | null {
  const [name, epoch] = [field(fields, "name"), field(fields, "epoch")]
  return name === undefined || epoch === undefined ? null : { name, epoch: Number(epoch) }
}

/** A worker's report to the owner of a task's job. */
export type Report =
  | { readonly kind: "finished"; readonly outcome: Outcome; readonly times: Omit<AttemptTimes, "worker"> }
  | {
      readonly kind: "started"
      readonly announce: boolean
      readonly alone?: boolean | undefined
      readonly place?: boolean | undefined
    }
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "preview"; readonly data: Json }
  /** Sent again until it is answered. `id`: unique in the worker. */
  | { readonly kind: "asked"; readonly id: number; readonly question: ArtifactQuestion }
  /** The worker has aborted an attempt whose handler had begun. */
  | {
      readonly kind: "aborted"
      readonly times: Omit<AttemptTimes, "worker">
      readonly usage?: JsonObject | undefined
    }
  /** The worker is stopping and will not run the task. */
  | { readonly kind: "returned" }
  /**
   * The worker does not take the task: it cannot be read, or an earlier owner of the job has sent it. No
   * worker holds it now.
   */
  | { readonly kind: "refused"; readonly cause?: string }

/** The sender and subject of a report: `entry` is that of the task, in the stream of its handler. */
export interface Sender {
  readonly worker: string
  readonly name: string
  readonly handler: string
  readonly entry: string
}

export function startReport(announce: boolean, alone: boolean | undefined, place = false): Report {
  return { kind: "started", announce, alone, place: place || undefined }
}

/** A later report of these kinds supersedes the earlier ones. */
const REPLACEABLE: ReadonlySet<Report["kind"]> = new Set(["started", "progress", "preview"])

/** Of two reports about a task with the same topic only the later one counts; undefined: every one counts. */
export function replacedTopic(report: Report): string | undefined {
  if (!REPLACEABLE.has(report.kind)) return undefined
  return report.kind === "started" && report.alone === false ? "joined" : report.kind
}

/**
 * A field and its value: the report, and the output, which is already text and is stored in the journal
 * unchanged.
 */
export function encodeReport(
  report: Report,
  { worker, name, handler, entry }: Sender,
): readonly [string, string] {
  if (report.kind !== "finished" || report.outcome.type !== "completed")
    return [JSON.stringify([name, worker, handler, entry, report]), ""]
  const { type, text, usage } = report.outcome
  const { kind, times } = report
  return [JSON.stringify([name, worker, handler, entry, { kind, outcome: { type, usage }, times }]), text]
}

export function decodeReport(said: string, text: string): { readonly report: Report; readonly from: Sender } {
  const [name, worker, handler, entry, report] = JSON.parse(said) as [string, string, string, string, Report]
  const from = { name, worker, handler, entry }
  if (report.kind !== "finished" || report.outcome.type !== "completed") return { report, from }
  const { type, usage } = report.outcome
  const outcome = { type, output: JSON.parse(text) as Json, text, usage }
  return { report: { kind: report.kind, outcome, times: report.times }, from }
}

/** A message of an engine to the workers. */
export type Control =
  /**
   * `reason`: of the abort signal of running attempts. Without `submissions`, attempts that are submitting
   * continue: their outcome is needed even when their job has ended. `known`: workers report what it lacks.
   */
  | {
      readonly type: "cancel"
      readonly names: readonly string[]
      readonly reason?: string | undefined
      readonly submissions?: true
      readonly known?: KnownRun | undefined
    }
  /** Partitions have new owners. */
  | { readonly type: "epochs"; readonly epochs: readonly (readonly [partition: number, epoch: number])[] }
  /** `joined`: permits not the handler to begin, but another isolated task to run at the same time. */
  | { readonly type: "begin"; readonly name: string; readonly joined?: true | undefined }
  /** To the worker that sent the query. */
  | ({ readonly type: "answer" } & AnsweredQuestion)

export interface AnsweredQuestion {
  readonly worker: string
  readonly id: number
  /** null: the attempt is over, or is another engine's. */
  readonly answer: ArtifactAnswer | null
}

export type BegunTask = readonly [name: string, ranMs: number, usage?: JsonObject]

/** A message of a worker to all engines. */
export type WorkerNotice =
  /**
   * Handlers that have begun and are running, each with its running time by the worker's clock and its usage
   * so far. Sent once, again when the usage has changed, and again to new owners.
   */
  | {
      readonly type: "begun"
      readonly worker: string
      readonly tasks: readonly BegunTask[]
    }
  /** Log lines of jobs of these partitions are in their streams. */
  | { readonly type: "logs"; readonly partitions: readonly number[] }
  /** The worker stopped gracefully. */
  | { readonly type: "left"; readonly worker: string }

function field(fields: Fields, name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) if (fields[i] === name) return fields[i + 1]
  return undefined
}
