/** Runs attempts: in this process, or in a thread for handlers that require one. */
import { artifactSettings } from "../artifacts/settings.ts"
import type { Limit } from "../broker/fair-queue.ts"
import type { Outcome, Task } from "../broker/port.ts"
import type { AttemptEvents, Runner, RunningAttempt } from "../broker/runner.ts"
import type { ArtifactAnswer, ArtifactQuestion } from "../core/artifacts.ts"
import type { Json } from "../core/json.ts"
import type { Progress } from "../core/view/view.ts"
import { type Log, type LoggedEnd, type LoggedLines, type LogLevel, silentLog } from "../log.ts"
import { attemptSpan } from "../trace.ts"
import { type WorkerArtifacts, workerArtifacts } from "./artifacts.ts"
import { Attempt, Deadlines, outcomeInTime, type TimeLimits, type Work } from "./attempt.ts"
import { Context, ownCopy, type Reports } from "./context.ts"
import { secretsFromEnvironment } from "./environment-secrets.ts"
import { execute, failed, withRule } from "./execute.ts"
import type { Handler } from "./handler.ts"
import { pureHandlers } from "./handlers/index.ts"
import { AttemptLog, type LogLimits } from "./logs/attempt-log.ts"
import type { LogBuffer } from "./logs/buffer.ts"
import { capturingConsole } from "./logs/console.ts"
import { type AttemptNames, attemptFields, type LogEntry } from "./logs/handler-log.ts"
import { Redactor, type Secret } from "./redact.ts"
import type { HandlerRegistry } from "./registry.ts"
import { fillIn, resolveSecrets, type SecretSource } from "./secrets.ts"
import { type WorkerSettings, workerSettings } from "./settings.ts"
import { ThreadPool } from "./thread/pool.ts"

export interface TaskRunnerOptions {
  readonly handlers: HandlerRegistry
  readonly settings?: Partial<WorkerSettings>
  readonly secrets?: SecretSource
  readonly log?: Log
  /** Stores what handlers log; absent: only the process log has it. */
  readonly logs?: LogBuffer
  /** Handlers log with `console`, too. */
  readonly capturesConsole?: boolean
  /** Absent: handlers cannot use artifacts. */
  readonly artifacts?: WorkerArtifacts
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/** Nothing to abort: the attempt had ended when `start` returned. */
const endedAtOnce: RunningAttempt = { abort: () => {} }

export class TaskRunner implements Runner {
  readonly settings: WorkerSettings
  readonly #handlers: HandlerRegistry
  readonly #secrets: SecretSource
  readonly #log: Log
  readonly #logs: LogBuffer | undefined
  readonly #logLimits: LogLimits
  readonly #capturesConsole: boolean
  readonly #artifacts: WorkerArtifacts
  readonly #now: () => number
  readonly #deadlines = new Deadlines()
  readonly #threads: ThreadPool
  /** The limits of attempts whose node sets none. */
  readonly #defaultLimits = new WeakMap<Handler, TimeLimits>()
  /**
   * The number of attempts whose handler runs on the event loop of this process, and when there last was more
   * than one.
   */
  #active = 0
  #crowdedAt = 0

  constructor(options: TaskRunnerOptions) {
    this.settings = workerSettings(options.settings)
    this.#handlers = options.handlers
    this.#secrets = options.secrets ?? secretsFromEnvironment()
    this.#log = options.log ?? silentLog
    this.#logs = options.logs
    this.#logLimits = { maxBytes: this.settings.maxLogBytes, maxLines: this.settings.maxLogLines }
    this.#capturesConsole = options.logs !== undefined && options.capturesConsole === true
    this.#artifacts = options.artifacts ?? workerArtifacts(null, artifactSettings(), this.settings)
    this.#now = options.now ?? Date.now
    this.#threads = new ThreadPool({
      memoryMb: this.settings.threadMemoryMb,
      loggedLate: (level, call, entry) => this.logOnly(level, call, entry),
    })
  }

  runs(handler: string): boolean {
    return this.#handlers.get(handler) !== undefined
  }

  isPure(handler: string): boolean {
    const known = this.#handlers.get(handler)
    return known !== undefined && pureHandlers.has(known)
  }

  limits(handler: string): readonly Limit[] {
    const { thread, concurrency } = this.#handlers.get(handler) ?? {}
    const limits: Limit[] = []
    if (thread) limits.push({ name: "threads", max: this.settings.threads })
    if (concurrency !== undefined) limits.push({ name: `handler ${handler}`, max: concurrency })
    return limits
  }

  start(task: Task, events: AttemptEvents): RunningAttempt {
    const handler = this.#handlers.get(task.handler)
    if (handler === undefined) throw new Error(`dispatched to a worker without handler ${task.handler}`)
    const span = attemptSpan(task)
    const begunAt = this.#deadlines.now()
    const reports = new EventReports({ task, events, begunAt, runner: this })
    const ended: AttemptEvents["ended"] = (outcome, at) => {
      events.ended(outcome, at, reports.end())
    }
    const call = { handler, task, reports }
    if (span === null) return this.#start(call, events, ended)
    return span.run(() =>
      this.#start(call, events, (outcome, at) => span.end(outcome, () => ended(outcome, at))),
    )
  }

  /** Lines that another process has packed. */
  logged(rows: readonly LoggedLines[]): void {
    this.#logs?.addRows(rows)
  }

  /** In the process log. One that throws must not fail the attempt. */
  logOnly(level: LogLevel, task: AttemptNames, { fields, message }: LogEntry): void {
    if (this.#log === silentLog) return
    try {
      this.#log[level]({ ...attemptFields(task), ...fields }, message)
    } catch {
      // The line is still stored.
    }
  }

  /** null: nothing is stored. */
  openLog(task: Task): AttemptLog | null {
    return this.#logs === undefined ? null : new AttemptLog(task, this.#logs, this.#logLimits)
  }

  #start(call: TaskCall, events: AttemptEvents, ended: AttemptEvents["ended"]): RunningAttempt {
    const { handler, task, reports } = call
    const { begunAt } = reports
    const isHere = !handler.thread
    if (isHere) this.#come(begunAt)
    const work = this.#begin(call)
    const limits = this.#limits(handler, task)
    const now = this.#deadlines.now()
    const atFirst = isHere ? reports.silentMs(now) : 0
    if ("type" in work) {
      if (isHere) this.#go(now)
      ended(outcomeInTime(work, { ranMs: now - begunAt, silentMs: atFirst }, limits), now)
      return endedAtOnce
    }
    if (isHere) work.outcome.then(() => this.#go(this.#deadlines.now()))
    return new Attempt({
      work,
      events,
      ended,
      limits,
      begunAt,
      deadlines: this.#deadlines,
      startedAfterMs: this.settings.startedAfterSeconds * 1000,
      lastHeartbeat: () => reports.heartbeatAt,
      // After its synchronous part another handler, if there is one, may block the event loop.
      silentMs: (end, begun) => {
        const since = Math.max(reports.lastAt, begun)
        return isHere && this.#isAloneSince(since) ? Math.max(atFirst, end - since) : atFirst
      },
    })
  }

  #come(now: number): void {
    if (++this.#active > 1) this.#crowdedAt = now
  }

  #go(now: number): void {
    if (this.#active-- > 1) this.#crowdedAt = now
  }

  /**
   * Has no other handler run on this event loop since then, apart from the caller, which is running or about
   * to end?
   */
  #isAloneSince(at: number): boolean {
    return this.#active <= 1 && this.#crowdedAt < at
  }

  now(): number {
    return this.#now()
  }

  close(): Promise<void> {
    return this.#threads.close()
  }

  #begin(call: TaskCall): Outcome | Work {
    const { handler, task, reports } = call
    try {
      // Field by field: a spread takes 2 µs here, as long as everything else that an empty attempt needs.
      if (task.late.length === 0)
        return this.#run({ handler, task, reports, config: task.config, redactor: null })
      const secrets = resolveSecrets(task.late, this.#secrets, task.owner)
      return secrets instanceof Promise ? this.#runLater(call, secrets) : this.#runWith(call, secrets)
    } catch (thrown) {
      return this.#failed(call, null, thrown)
    }
  }

  #runWith(call: TaskCall, secrets: readonly Secret[]): Outcome | Work {
    const redactor = new Redactor(secrets)
    try {
      return this.#run({
        ...call,
        ...fillIn(call.task.config, call.task.late, redactor, this.settings.maxOutputBytes),
      })
    } catch (thrown) {
      return this.#failed(call, redactor, thrown)
    }
  }

  /** The handler begins once the source of secrets has answered, unless the attempt was aborted meanwhile. */
  #runLater(call: TaskCall, secrets: Promise<readonly Secret[]>): Work {
    let begun: Work | undefined
    const begins = () => work.onBegun?.()
    let aborted: Error | undefined
    const fail = (thrown: unknown) => this.#failed(call, null, thrown)
    const outcome = secrets.then(found => {
      if (aborted !== undefined) return fail(aborted)
      if (!call.handler.thread) begins()
      const started = this.#runWith(call, found)
      if ("type" in started) return started
      begun = started
      started.onBegun = begins
      return started.outcome
    }, fail)
    const abort = (reason: Error) => {
      aborted = reason
      begun?.abort(reason)
    }
    const work: Work = {
      outcome,
      abort,
      used: () => begun?.used(),
      kill: () => begun?.kill(),
      isLoading: true,
    }
    return work
  }

  /** The handler has not begun. */
  #failed({ handler, task, reports }: TaskCall, redactor: Redactor | null, thrown: unknown): Outcome {
    const context = this.#context(task, reports, redactor)
    return { ...failed({ handler, redactor, context }, thrown), isUnbegun: true }
  }

  #run(run: Run): Outcome | Work {
    const { handler, task, config, redactor } = run
    const { maxOutputBytes, maxPreviewBytes } = this.settings
    if (handler.thread) {
      const module = String(handler.thread)
      const { content: _content, http: _http, ...artifacts } = this.#artifacts
      const capturesConsole = this.#capturesConsole
      return this.#threads.run({
        ...run,
        module,
        maxOutputBytes,
        maxPreviewBytes,
        capturesConsole,
        artifacts,
      })
    }
    const context = this.#context(task, run.reports, redactor)
    const execution = { handler, config: ownCopy(config), context, redactor, maxOutputBytes }
    const outcome =
      this.#capturesConsole && !pureHandlers.has(handler)
        ? capturingConsole(context, () => execute(execution))
        : execute(execution)
    if (!(outcome instanceof Promise)) return outcome
    return {
      outcome,
      abort: reason => context.abort(reason),
      used: () => context.used,
      kill: () => context.end(),
    }
  }

  #context(task: Task, reports: Reports, redactor: Redactor | null): Context {
    const { maxPreviewBytes } = this.settings
    const artifacts = this.#artifacts
    return new Context({ call: task, reports, redactor, maxPreviewBytes, artifacts, now: this.#now })
  }

  #limits(handler: Handler, task: Task): TimeLimits {
    if (task.timeoutSeconds !== null || task.heartbeatSeconds !== undefined)
      return this.#timeLimits(handler, task)
    const known = this.#defaultLimits.get(handler)
    if (known !== undefined) return known
    const limits = this.#timeLimits(handler, {})
    this.#defaultLimits.set(handler, limits)
    return limits
  }

  #timeLimits(
    handler: Handler,
    { timeoutSeconds, heartbeatSeconds }: Partial<Pick<Task, "timeoutSeconds" | "heartbeatSeconds">>,
  ): TimeLimits {
    return {
      timeoutMs: (timeoutSeconds ?? this.settings.timeoutSeconds) * 1000,
      graceMs: this.settings.graceSeconds * 1000,
      heartbeatMs: (heartbeatSeconds ?? Number.POSITIVE_INFINITY) * 1000,
      fault: fault => withRule(handler, null, fault),
    }
  }
}

class EventReports implements Reports {
  /** By the clock of the deadlines; undefined: there was none. */
  heartbeatAt: number | undefined
  #longestMs = 0
  readonly begunAt: number
  readonly #task: Task
  readonly #events: AttemptEvents
  readonly #runner: TaskRunner
  /** undefined: the attempt has not logged yet; null: nothing is stored. */
  #stored: AttemptLog | null | undefined

  constructor({ task, events, begunAt, runner }: EventReportsParts) {
    this.begunAt = begunAt
    this.#task = task
    this.#events = events
    this.#runner = runner
  }

  heartbeat(): void {
    const now = performance.now()
    this.#longestMs = this.silentMs(now)
    this.heartbeatAt = now
  }

  /** The last heartbeat, or else the beginning. */
  get lastAt(): number {
    return this.heartbeatAt ?? this.begunAt
  }

  /** The longest time between two heartbeats until `now`. */
  silentMs(now: number): number {
    return Math.max(this.#longestMs, now - this.lastAt)
  }

  place(): Promise<void> {
    return this.#events.place()
  }

  ask(question: ArtifactQuestion): Promise<ArtifactAnswer> {
    this.heartbeat()
    return this.#events.ask?.(question) ?? Promise.reject(new Error("This process cannot use artifacts."))
  }

  progress(progress: Progress): void {
    this.heartbeat()
    this.#events.progress(progress)
  }

  preview(data: Json): void {
    this.heartbeat()
    this.#events.preview(data)
  }

  log(level: LogLevel, entry: LogEntry): void {
    this.#runner.logOnly(level, this.#task, entry)
    this.#store(level, entry)
  }

  logLate(level: LogLevel, entry: LogEntry): void {
    this.#runner.logOnly(level, this.#task, entry)
  }

  printed(level: LogLevel, text: string): void {
    this.#store(level, { fields: {}, errors: [], message: text })
  }

  /** The attempt has ended. undefined: it has logged nothing. */
  end(): LoggedEnd | undefined {
    return this.#stored?.end(this.#runner.now())
  }

  #store(level: LogLevel, entry: LogEntry): void {
    if (this.#stored === undefined) this.#stored = this.#runner.openLog(this.#task)
    this.#stored?.line(this.#runner.now(), level, entry)
  }
}

interface EventReportsParts {
  readonly task: Task
  readonly events: AttemptEvents
  readonly begunAt: number
  readonly runner: TaskRunner
}

interface TaskCall {
  readonly handler: Handler
  readonly task: Task
  readonly reports: EventReports
}

interface Run extends TaskCall {
  readonly config: Json
  readonly redactor: Redactor | null
}
