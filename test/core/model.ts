/**
 * The rules of J1 to J17 once more, the naive way: nodes by id, sets and maps, everything recomputed from scratch
 * after each step. Slow, and short enough to be read against REQUIREMENTS.md. It shares no code with `src/core`.
 */
import type { Json, JsonObject } from "../../src/core/json.ts"
import type { NodeSpec } from "./graphs.ts"
import { givenUpOperation } from "./model-external.ts"
import {
  backoff,
  expiry,
  isDone,
  isDownstream,
  isInFlight,
  isLater,
  type JobResult,
  type ModelFault,
  type ModelNode,
  type ModelOptions,
  type ModelWait,
  newNode,
  nodeSummary,
  type Wanted,
} from "./model-node.ts"
import { isBlamed, join, start, suspectAfterDeath } from "./model-suspects.ts"
import type { JobSummary, NodeSummary } from "./summary.ts"

export class Model {
  readonly nodes = new Map<string, ModelNode>()
  private endedBy: "CANCELLED" | "EXPIRED" | "FAILED" | null = null
  private deleted = false
  private isPreview = false
  /** At the last `settle`. */
  wasOver = false
  private finishedAt: number | null = null
  private jobFault: { code: string; node: string | null } | null = null
  private jobOutput: Json | undefined
  private usage: { [key: string]: number } = {}
  private signals: { name: string; data: Json }[] = []
  private waitOrder: string[] = []
  private resumes = 0
  /** Operations that nobody wants any more, since the last `settle`. */
  readonly abandoned: string[] = []
  /** By node: its last attempt that ended although nobody had answered it. */
  private readonly unanswered = new Map<string, number>()
  private isUnsettled = false
  /** By whom it was paused. */
  private pausedBy: string | null = null
  private labels: { readonly [key: string]: string } = {}
  private note: string | null = null
  private orphans: string[] = []
  private readonly isChild: boolean
  private readonly ttlSeconds: number | null
  expiresAt: number | null

  /** Of a delayed job. */
  private startAt: number | null
  private hasStarted: boolean

  constructor(
    specs: readonly NodeSpec[],
    { ttlSeconds, now, isChild = false, startAt = null }: ModelOptions,
  ) {
    this.isChild = isChild
    this.ttlSeconds = ttlSeconds
    this.startAt = startAt
    this.hasStarted = startAt === null
    this.expiresAt = this.hasStarted ? expiry(this.ttlSeconds, now) : null
    for (const spec of specs) this.nodes.set(spec.id, newNode(spec))
  }

  /** J2, in its own words. */
  status(): string {
    const states = [...this.nodes.values()].map(node => node.state)
    if (this.deleted) return "DELETED"
    if (this.endedBy !== null) return this.endedBy
    if (!this.hasStarted) return "PENDING"
    if (states.includes("FAILED")) return "FAILED"
    if (states.includes("CANCELLED")) return "CANCELLED"
    if (states.every(isDone)) return this.jobFault === null ? "COMPLETED" : "FAILED"
    return this.isPreview ? "PREVIEW" : "PROCESSING"
  }

  isOver(): boolean {
    return !["PENDING", "PROCESSING", "PREVIEW"].includes(this.status())
  }

  unfinished(): string[] {
    return [...this.nodes].filter(([, node]) => !isDone(node.state)).map(([id]) => id)
  }

  /** A result counts for the current attempt of a node that somebody works on (or that waits, if `waitingToo`). */
  accepts(id: string, attempt: number, waitingToo: boolean): boolean {
    const node = this.nodes.get(id)
    if (this.isOver() || node === undefined || node.attempt !== attempt) return false
    if (node.state === "WAITING") return waitingToo && node.waits?.kind !== "external"
    return isInFlight(node.state) && node.notBefore === null && node.awaitsSlot === null && !node.held
  }

  /** What is ready and that no worker has does not begin. */
  pause(by: string, kept: ReadonlySet<string>, now: number): boolean {
    if (this.isOver() || this.pausedBy !== null) return false
    this.pausedBy = by
    for (const [id, node] of this.nodes) {
      if (!isInFlight(node.state) || node.state === "RUNNING" || isLater(node, now)) continue
      if (kept.has(`${id}#${node.attempt}`)) continue
      node.held = true
      node.awaitsSlot = null
      node.notBefore = null
    }
    return true
  }

  resume(): boolean {
    if (this.isOver() || this.pausedBy === null) return false
    this.pausedBy = null
    for (const node of this.nodes.values()) node.held = false
    return true
  }

  describe(labels: { readonly [key: string]: string } | undefined, note: string | null): boolean {
    if (this.deleted) return false
    const isSame = (labels === undefined || labels.team === this.labels.team) && note === this.note
    this.labels = labels ?? this.labels
    this.note = note
    return !isSame
  }

  /** X5: a node that has begun has its slot. */
  awaitsSlot(id: string, provider: string): boolean {
    const node = this.nodes.get(id)!
    if (node.state !== "QUEUED") return false
    node.awaitsSlot = provider
    return true
  }

  slotGranted(id: string): boolean {
    const node = this.nodes.get(id)
    if (this.isOver() || node === undefined || node.awaitsSlot === null) return false
    node.awaitsSlot = null
    return true
  }

  /** X1 */
  submitted(id: string, wait: Extract<ModelWait, { kind: "external" }>): void {
    this.waits(id, wait)
    this.nodes.get(id)!.pollAt = wait.next_poll_at ?? null
  }

  /** `otherDiedAt`: of the last death of another node that ran alone. */
  started(id: string, at: number, how: { alone: boolean; otherDiedAt: number }): boolean {
    const node = this.nodes.get(id)!
    if (node.startKnown) return false
    start(node, at, how)
    this.isPreview = false
    return true
  }

  joined(id: string): boolean {
    const isJoined = join(this.nodes.get(id)!)
    if (isJoined) this.isPreview = false
    return isJoined
  }

  used(usage: JsonObject): void {
    for (const [key, amount] of Object.entries(usage))
      this.usage[key] = (this.usage[key] ?? 0) + (amount as number)
  }

  completed(id: string, output: Json, extra: JobResult & { usage?: JsonObject } = {}): void {
    const node = this.nodes.get(id)!
    this.used(extra.usage ?? {})
    if (extra.jobFault !== undefined) this.jobFault = { code: extra.jobFault.code, node: null }
    else if (extra.jobOutput !== undefined) this.jobOutput = extra.jobOutput
    this.leave(node)
    node.state = "COMPLETED"
    node.unfollowed = null
    node.output = output
    this.isPreview = false
  }

  /** J12. A node that has begun cannot be skipped any more. */
  skipped(id: string): boolean {
    const node = this.nodes.get(id)!
    if (node.state !== "QUEUED") return false
    this.leave(node)
    node.unfollowed = null
    node.state = "SKIPPED"
    node.output = { skipped: true }
    this.isPreview = false
    return true
  }

  failed(id: string, fault: ModelFault, now: number, random: number): void {
    const node = this.nodes.get(id)!
    this.leave(node)
    node.failures++
    node.fault = { code: fault.code, cause: null }
    this.isPreview = false
    const most = node.spec.retry?.maxAttempts ?? 3
    if (fault.retryable && node.failures < most) {
      node.attempt++
      node.state = "QUEUED"
      node.notBefore = now + Math.max((fault.retry_after_seconds ?? 0) * 1000, backoff(node, random))
      return
    }
    node.state = "FAILED"
    if (node.unfollowed !== null) givenUpOperation(this, id, node.unfollowed)
    this.jobFault = { code: fault.code, node: id }
    for (const [otherId, other] of this.nodes) {
      if (!isDownstream(this.nodes, otherId, id)) continue
      other.state = "FAILED"
      other.fault = { code: fault.code, cause: id }
    }
  }

  waits(id: string, wait: ModelWait, extra: JobResult = {}): void {
    const node = this.nodes.get(id)!
    node.state = "WAITING"
    node.unfollowed = null
    node.startKnown = false
    node.suspect = null
    node.waits = wait
    this.waitOrder.push(id)
    this.isPreview = false
    const kept = wait.kind === "signal" ? this.signals.findIndex(({ name }) => name === wait.name) : -1
    if (kept >= 0) this.completed(id, this.signals.splice(kept, 1)[0]!.data, extra)
  }

  previewed(id: string, data: Json): void {
    const node = this.nodes.get(id)!
    if (node.state === "QUEUED") node.state = "RUNNING"
    node.preview = data
    this.isPreview = true
  }

  token(): string {
    return `r${this.resumes}`
  }

  signalled(name: string, data: Json, extra: JobResult = {}): void {
    const asked = this.waitOrder.find(id => {
      const { waits } = this.nodes.get(id)!
      return waits?.kind === "signal" && waits.name === name
    })
    if (asked === undefined) this.signals.push({ name, data })
    else this.completed(asked, data, extra)
  }

  /**
   * Times that have come, in the order in which the waiting began. A signal that is too late ends the job. The last
   * node of a job is not woken together with others.
   */
  woke(now: number, extra: JobResult = {}): void {
    if (this.isOver()) return
    if (!this.hasStarted) {
      if (this.startAt! > now || this.pausedBy !== null) return
      this.hasStarted = true
      this.expiresAt = expiry(this.ttlSeconds, now)
    }
    if (this.expiresAt !== null && this.expiresAt <= now) {
      this.endedBy = "EXPIRED"
      return
    }
    const unfinished = this.unfinished().length
    for (const id of [...this.waitOrder]) {
      const { waits } = this.nodes.get(id)!
      if (this.isOver() || waits?.until === undefined || waits.until > now) continue
      if (this.pausedBy !== null && waits.kind !== "external") continue
      if (waits.kind === "external") {
        this.endedBy = "EXPIRED"
        return
      }
      const isLast = this.unfinished().length === 1
      const output =
        waits.kind === "timer" ? waits.output : waits.kind === "signal" ? waits.default : undefined
      if (isLast && unfinished > 1 && output !== undefined) break
      if (output !== undefined) this.completed(id, output, isLast ? extra : {})
      else this.failed(id, { code: "E416", message: "", retryable: false }, now, 0)
    }
    for (const node of this.nodes.values())
      if (this.pausedBy === null && node.notBefore !== null && node.notBefore <= now) node.notBefore = null
  }

  /** All that was in flight is lost, except what waits for a retry time that has not come. */
  recovered(now: number, lossLimit: number, isMeant: (node: ModelNode) => boolean = () => true): boolean {
    if (this.isOver()) return false
    const lost = [...this.nodes.values()].filter(node => this.mayBeWithWorker(node, now) && isMeant(node))
    const hopeless = lost.find(node => isBlamed(node, lossLimit))
    if (hopeless !== undefined) {
      this.failed(hopeless.spec.id, { code: "E417", message: "", retryable: false }, now, 0)
      return true
    }
    for (const node of lost) {
      this.endedUnanswered(node)
      if (node.startKnown) node.losses++
      node.suspect = suspectAfterDeath(node)
      node.startKnown = false
      node.notBefore = null
      node.attempt++
      node.state = "QUEUED"
      node.held = this.pausedBy !== null
    }
    return lost.length > 0
  }

  /** Of a paused job nothing begins: a retry time that has come is no reason. */
  private mayBeWithWorker(node: ModelNode, now: number): boolean {
    if (!isInFlight(node.state) || node.awaitsSlot !== null || node.held) return false
    return this.pausedBy === null ? !isLater(node, now) : node.notBefore === null
  }

  /** Attempts that their worker need not end. */
  readonly takenBack: string[] = []

  /** What is known to run begins anew, and nobody is to blame. false: nothing is. */
  handedOver(running: ReadonlySet<string>, isMeant: (node: ModelNode) => boolean = () => true): boolean {
    if (this.isOver()) return false
    const hasBegun = (node: ModelNode) => node.startKnown || running.has(`${node.spec.id}#${node.attempt}`)
    const begun = [...this.nodes.values()].filter(
      node => isInFlight(node.state) && hasBegun(node) && isMeant(node),
    )
    for (const node of begun) {
      this.endedUnanswered(node)
      this.takenBack.push(`${node.spec.id}#${node.attempt}`)
      node.startKnown = false
      node.attempt++
      node.state = "QUEUED"
      node.held = this.pausedBy !== null
    }
    return begun.length > 0
  }

  /** A worker may have it. */
  endedUnanswered({ spec, attempt, state, awaitsSlot, held }: ModelNode): void {
    if (isInFlight(state) && awaitsSlot === null && !held) this.unanswered.set(spec.id, attempt)
  }

  /** What it used counts once, whatever has become of the job; the parent is told again. */
  abortReported(id: string, attempt: number, usage: JsonObject): boolean {
    if (this.deleted || this.unanswered.get(id) !== attempt) return false
    this.unanswered.delete(id)
    this.used(usage)
    if (this.isOver() && this.isChild) this.isUnsettled = true
    return true
  }

  cancelled(): void {
    this.endedBy = "CANCELLED"
  }

  jobFailed(fault: ModelFault): boolean {
    if (this.isOver() || !this.hasStarted) return false
    this.endedBy = "FAILED"
    this.jobFault = { code: fault.code, node: null }
    return true
  }

  /** J10: whatever is not COMPLETED or SKIPPED begins anew, under a new attempt number. */
  retried(now: number): boolean {
    if (!["FAILED", "CANCELLED", "EXPIRED"].includes(this.status()) || this.unfinished().length === 0)
      return false
    this.endedBy = null
    this.isUnsettled = false
    this.orphans = []
    this.jobFault = null
    this.jobOutput = undefined
    this.finishedAt = null
    this.wasOver = this.isPreview = false
    this.expiresAt = expiry(this.ttlSeconds, now)
    if (this.startAt !== null) this.startAt = Math.min(this.startAt, now)
    this.hasStarted = true
    for (const id of this.unfinished()) {
      const { spec, attempt, operations } = this.nodes.get(id)!
      this.nodes.set(id, { ...newNode(spec), attempt: attempt + 1, operations })
    }
    return true
  }

  /** J14: a job that has ended tells its parent of it, and the children that it waited for. */
  settled(): boolean {
    if (!this.isUnsettled) return false
    this.isUnsettled = false
    this.orphans = []
    return true
  }

  /** Only before the start; a time that has passed is now. */
  rescheduled(startAt: number, now: number): boolean {
    const at = Math.max(startAt, now)
    if (this.isOver() || this.hasStarted || at === this.startAt) return false
    this.startAt = at
    return true
  }

  remove(): boolean {
    if (this.deleted || (this.hasStarted && !this.isOver())) return false
    if (!this.isOver()) this.endedBy = "CANCELLED"
    this.deleted = true
    return true
  }

  /** What follows from the last step: an end cancels the rest, and whatever has all its dependencies done is queued. */
  settle(now: number, before: ReadonlySet<string>): Wanted {
    if (this.isOver() && !this.wasOver) {
      this.wasOver = true
      this.finishedAt = now
      this.orphans = this.waitOrder.flatMap(id => {
        const { waits } = this.nodes.get(id)!
        return waits?.kind === "child" ? [waits.job_id] : []
      })
      this.isUnsettled = this.isChild || this.orphans.length > 0
      for (const [id, node] of this.nodes) {
        if (node.waits?.kind === "external") givenUpOperation(this, id, node.waits.external_id)
        else if (node.unfollowed !== null) givenUpOperation(this, id, node.unfollowed)
        this.endedUnanswered(node)
        this.leave(node, false)
        if (!isDone(node.state) && node.state !== "FAILED") node.state = "CANCELLED"
      }
      this.pausedBy = null
    }
    if (!this.isOver() && this.hasStarted)
      for (const node of this.nodes.values())
        if (node.state === "PENDING" && this.openDependencies(node).length === 0) {
          node.state = "QUEUED"
          node.held = this.pausedBy !== null
        }
    const after = this.inFlight()
    const takenBack = this.takenBack.splice(0)
    const abandoned = this.abandoned.splice(0).sort()
    return {
      abandoned,
      dispatched: [...after].filter(task => !before.has(task)).sort(),
      aborted: [
        ...(this.isOver() ? [...before].filter(task => !this.isAnswered(task)) : []),
        ...takenBack,
      ].sort(),
    }
  }

  /** `id#attempt` of everything a worker has or should have. */
  inFlight(): Set<string> {
    const found = new Set<string>()
    for (const [id, node] of this.nodes)
      if (isInFlight(node.state) && node.notBefore === null && node.awaitsSlot === null && !node.held)
        found.add(`${id}#${node.attempt}`)
    return found
  }

  /** The step itself ended this attempt: nobody has to be told to stop. */
  private isAnswered(task: string): boolean {
    const node = this.nodes.get(task.split("#")[0]!)!
    return isDone(node.state) || (node.state === "FAILED" && node.fault?.cause === null)
  }

  openDependencies(node: ModelNode): string[] {
    return node.spec.dependencies.filter(id => !isDone(this.nodes.get(id)!.state))
  }

  private leave(node: ModelNode, goesOn = true): void {
    if (goesOn && node.waits !== null) this.resumes++
    if (goesOn) node.suspect = null
    node.awaitsSlot = null
    node.held = false
    node.pollAt = null
    node.polls = 0
    node.pollErrors = 0
    node.startKnown = false
    node.notBefore = null
    node.waits = null
    this.waitOrder = this.waitOrder.filter(id => id !== node.spec.id)
  }

  summary(now: number): JobSummary {
    const nodes: { [id: string]: NodeSummary } = {}
    for (const [id, node] of this.nodes)
      nodes[id] = nodeSummary(node, { now, remaining: this.openDependencies(node).length })
    const signals: { [name: string]: Json[] } = {}
    for (const { name, data } of this.signals) signals[name] = [...(signals[name] ?? []), data]
    return {
      status: this.status(),
      fault: this.jobFault,
      output: this.jobOutput ?? null,
      expires_at: this.expiresAt,
      ...(this.startAt === null ? {} : { start_at: this.startAt }),
      finished_at: this.finishedAt,
      unfinished: this.unfinished().length,
      in_flight: [...this.nodes.values()].filter(
        node => isInFlight(node.state) && !isLater(node, now) && node.awaitsSlot === null && !node.held,
      ).length,
      resumes: this.resumes,
      usage: this.usage,
      signals,
      ...(this.isUnsettled ? { untold: this.orphans } : {}),
      ...(this.pausedBy === null ? {} : { paused: this.pausedBy }),
      ...(Object.keys(this.labels).length === 0 ? {} : { labels: this.labels }),
      ...(this.note === null ? {} : { note: this.note }),
      nodes,
    }
  }
}
