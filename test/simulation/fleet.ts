/**
 * A fleet from a seed: engines on one store, under one virtual clock. They are killed, replaced, and robbed of
 * partitions that they believe to own; then the weather clears, and everything must come right.
 */
import type { PipelineNeeds, Task } from "../../src/broker/port.ts"
import type { StartTime } from "../../src/core/commands.ts"
import { jobHasEnded } from "../../src/core/states.ts"
import { wakeAt, wakesInTime } from "../../src/core/timers.ts"
import { type LiveGraph, withLive } from "../../src/core/view/live-view.ts"
import { graphView } from "../../src/core/view/view.ts"
import { compileWorkflow, type Plan } from "../../src/definition/index.ts"
import { Engine } from "../../src/engine/engine.ts"
import { jobIsPaused } from "../../src/engine/owner/job-result.ts"
import { Plans } from "../../src/engine/plans.ts"
import { liveOverlay } from "../../src/engine/remote/live-overlay.ts"
import { engineSettings } from "../../src/engine/settings.ts"
import { Queries } from "../../src/jobs/queries.ts"
import { waitReason } from "../../src/jobs/why/reasons.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { type Random, randomFrom } from "../crash/random.ts"
import {
  factsOf,
  jobOf,
  jobsOf,
  partitionAt,
  seizePartition,
  setPartition,
  storedPartitions,
  unfinishedJobsOf,
} from "../support/store-tables.ts"
import { EngineClocks, LONGEST_JUMP_MS } from "./clocks.ts"
import { SimulatedSchedules } from "./schedules.ts"
import { type FaultRates, unreliable } from "./unreliable.ts"
import { SIGNALS, SimulatedWorker } from "./worker.ts"

const PARTITIONS = 4
const OWNER = "simulation"
const WORKFLOWS = 6
/** Far beyond every timer, backoff and time to wait for an answer. */
const CLEAR_MINUTES = 20

interface Member {
  readonly engine: Engine
  isDead: boolean
}

export interface Outcome {
  readonly violations: readonly string[]
  readonly acknowledged: number
  readonly executions: number
  readonly deaths: number
}

export class Fleet {
  readonly #random: Random
  readonly #clock: VirtualClock
  readonly #store: MemoryStore = createMemoryStore({ partitions: PARTITIONS })
  readonly #queries = queriesOn(this.#store)
  readonly #weather: FaultRates = { faults: 0.08 }
  readonly #violations: string[] = []
  readonly #acknowledged = new Set<string>()
  readonly #started = new Set<string>()
  #plans: readonly { readonly plan: Plan; readonly version: number }[] = []
  #members: Member[] = []
  #executions = 0
  #deaths = 0
  #ids = 0

  readonly #isNested: boolean
  readonly #computes: boolean
  readonly #pauses: boolean
  readonly #delays: boolean
  readonly #jumps: boolean
  /** null: all have the clock of the simulation. */
  readonly #clocks: EngineClocks | null
  readonly #schedules: SimulatedSchedules | null
  /** Delayed jobs that were started. */
  delayed = 0
  /** How often a node was found with a reason of this kind. */
  readonly reasons = new Map<string, number>()

  /**
   * `isNested`: some nodes run other workflows, and some run for each item of a list. `computes`: some only compute, and
   * begin before what made them ready is durable. `pauses`: jobs are paused and resumed, and every unfinished node of
   * every job in memory must have a reason. `delays`: many jobs start later, and are rescheduled and deleted before.
   * `schedules`: workflows start at ticks. `jumps`: the clocks of engines jump back and forth.
   */
  constructor(
    seed: number,
    {
      isNested = false,
      computes = false,
      pauses = false,
      delays = false,
      schedules = false,
      jumps = false,
    } = {},
  ) {
    this.#delays = delays
    this.#pauses = pauses
    this.#isNested = isNested
    this.#computes = computes
    this.#random = randomFrom(seed)
    this.#clock = new VirtualClock({ seed })
    const shared = { store: this.#store, random: this.#random, clock: this.#clock }
    this.#jumps = jumps
    this.#clocks = jumps || schedules ? new EngineClocks(this.#clock) : null
    this.#schedules = schedules ? new SimulatedSchedules({ ...shared, owner: OWNER }) : null
  }

  /** Ticks that started a job. */
  get started(): number {
    return this.#schedules?.started ?? 0
  }

  async run(options: { readonly engines: number; readonly steps: number }): Promise<Outcome> {
    await this.#storeWorkflows()
    for (let i = 0; i < options.engines; i++) this.#start()
    await this.#schedules?.create(this.#plans.map(({ plan }) => plan.name))
    for (let step = 0; step < options.steps; step++) {
      this.#something()
      if (this.#jumps && this.#random.chance(0.3)) this.#clocks?.jump(this.#random)
      await this.#schedules?.something(this.#members.map(({ engine }) => engine))
      await this.#pass(this.#random.between(1, 400))
      await this.#mustBeFound()
      if (this.#pauses) this.#mustBeExplained()
    }
    this.#weather.faults = 0
    this.#clocks?.set()
    await this.#schedules?.stop(this.#members.map(({ engine }) => engine))
    await this.#clearUp()
    await this.#judge()
    this.#violations.push(...((await this.#schedules?.judge()) ?? []))
    for (const member of this.#members) member.isDead = true
    return {
      violations: this.#violations,
      acknowledged: this.#acknowledged.size,
      executions: this.#executions,
      deaths: this.#deaths,
    }
  }

  /** Until all has been settled for two minutes, in which nothing that has ended may begin again. */
  async #clearUp(): Promise<void> {
    let settled = 0
    for (let minutes = 0; minutes < CLEAR_MINUTES && settled < 2; minutes++) {
      if (this.#pauses) this.#resumeAll()
      await this.#pass(60_000)
      settled = this.#hasSettled() ? settled + 1 : 0
    }
  }

  /** Moves time on, timer by timer, with everything that follows from each in between. */
  async #pass(ms: number): Promise<void> {
    const until = this.#clock.now() + ms
    for (;;) {
      // The committer flushes on the next turn; what that causes may need one more.
      for (let turn = 0; turn < 3; turn++) await new Promise(resolve => setImmediate(resolve))
      const next = this.#clock.next
      if (next === null || next > until) break
      this.#clock.advance(next - this.#clock.now())
    }
    this.#clock.advance(until - this.#clock.now())
  }

  #something(): void {
    const chance = this.#random.next()
    if (chance < 0.5) this.#submit()
    else if (chance < 0.72) this.#command()
    else if (chance < 0.82) this.#rob()
    else if (chance < 0.92) this.#kill()
  }

  #start(): void {
    const member: { engine?: Engine; isDead: boolean } = { isDead: false }
    const isDead = () => member.isDead
    const random = this.#random
    const clock = this.#clocks?.ofEngine() ?? this.#clock
    const journal = unreliable({ store: this.#store, clock, random, weather: this.#weather, isDead })
    member.engine = new Engine({
      journal,
      location: null,
      takesPartitions: true,
      clock,
      log: silentLog,
      settings: {
        ...engineSettings(),
        // Half of them keep no output in memory and fetch what they need.
        largeOutputBytes: random.pick([5, 1 << 18]),
        beatSeconds: 0.2,
        leaseSeconds: 1000,
        lossLimit: 1000,
        parkAfterMs: 300,
      },
      broker: host =>
        new SimulatedWorker({
          clock,
          random,
          events: host.events,
          isDead,
          starts: task => this.#starts(member as Member, task),
        }),
      worker: () => ({ version: "0", handlers: ["work"], concurrency: 1, running: 0, queued: 0 }),
      observer: {
        changed() {},
        ended() {},
        lost() {},
        progressed() {},
        followed() {},
        released() {},
        fired() {},
      },
    })
    void member.engine.start()
    this.#members.push(member as Member)
  }

  /** Its peers see at once that it is gone; a new one comes. */
  #kill(): void {
    const member = this.#random.pick(this.#members)
    member.isDead = true
    this.#deaths++
    this.#members = this.#members.filter(other => other !== member)
    for (const row of storedPartitions(this.#store))
      if (row.owner === member.engine.id) setPartition(this.#store, { ...row, owner: null })
    this.#store.stores.journal.leave(member.engine.id)
    this.#start()
  }

  /** A lease that ran out while its owner was only slow: somebody may take the partition. */
  #rob(): void {
    seizePartition(this.#store, this.#random.pick(storedPartitions(this.#store)).partition, null)
  }

  #submit(): void {
    const member = this.#random.pick(this.#members)
    const { plan, version } = this.#random.pick(this.#plans)
    const partition = this.#random.between(0, PARTITIONS - 1)
    const id = this.#newId(partition)
    const command = {
      type: "submit",
      owner: OWNER,
      workflow: plan.name,
      workflowVersion: version,
      input: null,
      ttlSeconds: null,
      priority: 0,
      ...(this.#delays && this.#random.chance(0.7) ? this.#startTime() : {}),
    } as const
    // An id whose partition somebody else owns travels to its owner.
    member.engine.commands.submitOnce(id, plan, command).then(
      () => member.isDead || this.#acknowledged.add(id),
      () => {},
    )
  }

  /** Sometimes one that has passed. */
  #startTime(): StartTime {
    const ms = this.#random.between(-500, 15_000)
    return this.#random.chance(0.5) ? { startAt: this.#clock.now() + ms } : { delayMs: Math.max(0, ms) }
  }

  #command(): void {
    if (this.#acknowledged.size === 0) return
    const member = this.#random.pick(this.#members)
    const pending = this.#delays ? unfinishedJobsOf(this.#store).filter(row => row.status === "PENDING") : []
    if (pending.length > 0 && this.#random.chance(0.6)) {
      const { id } = this.#random.pick(pending)
      const type = this.#random.pick(["reschedule", "reschedule", "reschedule", "delete"] as const)
      const command = type === "delete" ? { type } : { type, ...this.#startTime() }
      member.engine.commands.command(id, command).catch(() => {})
      return
    }
    // Only an unfinished job can be paused, and most have ended by then.
    const open = this.#pauses ? unfinishedJobsOf(this.#store) : []
    if (open.length > 0 && this.#random.chance(0.6)) {
      const { id } = this.#random.pick(open)
      const type = this.#random.pick(["pause", "pause", "resume", "describe"] as const)
      const command = type === "describe" ? { type, note: `${this.#clock.now()}` } : { type }
      member.engine.commands.command(id, command).catch(() => {})
      return
    }
    const id = this.#random.pick([...this.#acknowledged])
    const type = this.#random.pick(["cancel", "retry", "retry", "signal", "signal", "signal"] as const)
    const command = type === "signal" ? { type, name: this.#random.pick(SIGNALS), data: null } : { type }
    member.engine.commands.command(id, command).catch(() => {})
  }

  #resumeAll(): void {
    for (const row of unfinishedJobsOf(this.#store))
      if (jobIsPaused(row))
        this.#members[0]!.engine.commands.command(row.id, { type: "resume" }).catch(() => {})
  }

  /** Every unfinished node of every job that an engine has in memory has a reason, and the engine has lost no task. */
  #mustBeExplained(): void {
    const now = () => this.#clock.now()
    for (const { engine } of this.#members) {
      const { taskLocations: owner, broker, jobs } = engine.partitionOwner
      for (const job of jobs.values()) {
        if (jobHasEnded(job.state.status)) continue
        const parts = { owner, broker, lacks: (needs: PipelineNeeds) => needs, now }
        const live = liveOverlay(job, { jobId: job.id }, parts) as LiveGraph
        for (const node of withLive({ ...graphView(job.state, { now: now() }), live }).nodes) {
          const reason = waitReason(node)
          if (reason === null) continue
          this.reasons.set(reason.kind, (this.reasons.get(reason.kind) ?? 0) + 1)
          if (reason.kind === "unexplained" || reason.kind === "worker")
            this.#violations.push(`${job.id}: ${node.id} is ${node.status} and has no reason`)
        }
      }
    }
  }

  /** Two that own a partition by the store's word never run one attempt twice, nor what is complete. */
  #starts(member: Member, task: Task): void {
    const partition = Number.parseInt(task.jobId.slice(15, 18), 16)
    const holding = member.engine.partitionOwner.owned.get(partition)
    if (holding?.epoch !== partitionAt(this.#store, partition).epoch) return
    this.#executions++
    // What only computes begins while the start is being stored: `#judge` checks the order of the facts.
    if (this.#delays && task.handler !== "compute") this.#mustHaveStarted(task)
    // A retry has no fact of its own: an owner whose clock is behind cannot know that an earlier one has begun it.
    const owner = this.#jumps && task.attempt > 1 ? ` in epoch ${holding.epoch}` : ""
    const name = `${task.jobId} ${task.nodeId} ${task.item ?? ""} attempt ${task.attempt}${owner}`
    // What only computes may be forgotten with its process, together with a job that was not stored: then another job may
    // have its id, for a schedule that was changed meanwhile.
    if (task.handler !== "compute") {
      if (this.#started.has(name)) this.#violations.push(`${name} started twice`)
      this.#started.add(name)
    }
    const isComplete = factsOf(this.#store, task.jobId).some(({ type, data }) => {
      if (type !== "node_completed" && type !== "item_completed") return false
      const done = JSON.parse(data!) as { node: number; item?: number }
      return done.node === task.node && done.item === task.item
    })
    if (isComplete) this.#violations.push(`${name} started although the node is complete`)
  }

  /** Nothing of a job begins before its start is stored, and none is stored before its time. */
  #mustHaveStarted({ jobId }: Task): void {
    let startAt: number | undefined
    let startedAt: number | undefined
    for (const { type, at, data } of factsOf(this.#store, jobId)) {
      const fact = JSON.parse(data!) as { start_at?: number }
      if (type === "job_retried") return
      startAt = fact.start_at ?? startAt
      if (type === "job_started") startedAt = at
    }
    if (startAt !== undefined && (startedAt === undefined || startedAt < startAt))
      this.#violations.push(`${jobId} has begun before its start time`)
  }

  /** Whoever dies now: the next owner sees everything that is to be done by the time in its row. */
  async #mustBeFound(): Promise<void> {
    // A task began at its time by the clock of its owner.
    const now = this.#clock.now() + (this.#jumps ? LONGEST_JUMP_MS : 0)
    for (const row of unfinishedJobsOf(this.#store)) {
      const { state } = await this.#queries.fold(row.id)
      if (!wakesInTime(state, row.wakeAt, now))
        this.#violations.push(`${row.id}: is to be woken at ${wakeAt(state)}, its row says ${row.wakeAt}`)
    }
  }

  /** Every job has ended, with nobody left to tell, and every partition has an owner. */
  #hasSettled(): boolean {
    const isOver = jobsOf(this.#store).every(
      ({ finishedAt, wakeAt }) => finishedAt !== null && wakeAt === null,
    )
    return isOver && this.#owned() === PARTITIONS
  }

  #owned(): number {
    return this.#members.reduce((sum, { engine }) => sum + engine.ownedPartitions, 0)
  }

  async #judge(): Promise<void> {
    for (const id of this.#acknowledged)
      if (jobOf(this.#store, id) === null) this.#violations.push(`${id} was acknowledged and is lost`)
    for (const row of jobsOf(this.#store)) {
      const found = await this.#queries.verify(row)
      const { facts } = await this.#queries.fold(row.id)
      const done = facts.flatMap(({ fact }) => {
        if (fact.type === "item_completed") return [`${fact.node}/${fact.item}`]
        return fact.type === "node_completed" ? [`${fact.node}`] : []
      })
      if (new Set(done).size < done.length) found.push("a node was completed twice")
      if (facts.filter(({ fact }) => fact.type === "job_submitted").length !== 1)
        found.push("submitted twice")
      const begun = facts.findIndex(({ fact }) => "node" in fact)
      const start = facts.findIndex(({ fact }) => fact.type === "job_started")
      if (begun !== -1 && start !== -1 && begun < start) found.push("has begun before its start")
      const starts = facts.filter(({ fact }) => fact.type === "job_started").length
      if (starts > 1) found.push("started twice")
      this.delayed += starts
      if (row.finishedAt === null) found.push(`is stuck in ${row.status}`)
      else if (row.wakeAt !== null) found.push("has ended and not told its relatives")
      if (row.parentId !== null && jobOf(this.#store, row.parentId) === null) found.push("has no parent")
      this.#violations.push(...found.map(violation => `${row.id}: ${violation}`))
    }
    const owned = this.#owned()
    if (owned !== PARTITIONS) this.#violations.push(`${owned} of ${PARTITIONS} partitions are owned`)
  }

  async #storeWorkflows(): Promise<void> {
    const journal = openMemory(this.#store)
    const handlers = { get: (name: string) => ({ name }), names: () => [] }
    const plans: { plan: Plan; version: number }[] = []
    for (let i = 0; i < WORKFLOWS; i++) {
      const { plan } = compileWorkflow(this.#randomWorkflow(i), { handlers })
      const definition = JSON.stringify(plan!.canonical)
      const row = { owner: OWNER, name: plan!.name, hash: plan!.hash, definition, createdAt: 0 }
      plans.push({ plan: plan!, version: (await journal.putWorkflow(row)).version })
    }
    this.#plans = plans
  }

  #randomWorkflow(index: number) {
    const random = this.#random
    const nodes = Array.from({ length: random.between(1, 6) }, (_, node) => ({
      id: `n${node}`,
      handler: this.#handler(index),
      dependencies: Array.from({ length: node }, (_, other) => `n${other}`).filter(() => random.chance(0.4)),
      retry: { max_attempts: 3, initial_seconds: 0.5, max_seconds: 2, jitter: 0.5 },
      ...this.#forEach(),
    }))
    return { name: `w${index}`, nodes }
  }

  #forEach(): { for_each?: number[]; max_parallel?: number } {
    const random = this.#random
    if (!this.#isNested || !random.chance(0.25)) return {}
    const for_each = Array.from({ length: random.between(0, 4) }, (_, item) => item)
    return random.chance(0.5) ? { for_each } : { for_each, max_parallel: random.between(1, 3) }
  }

  /** Runs only workflows behind its own: none runs inside itself. */
  #handler(index: number): string {
    if (this.#computes && this.#random.chance(0.5)) return "compute"
    if (!this.#isNested || index === WORKFLOWS - 1 || !this.#random.chance(0.3)) return "simulated"
    return `run:w${this.#random.between(index + 1, WORKFLOWS - 1)}`
  }

  /** Its own count instead of chance, so that the same seed gives the same ids. */
  #newId(partition: number): string {
    const time = this.#clock.now().toString(16).padStart(12, "0")
    const count = (++this.#ids).toString(16).padStart(12, "0")
    return `${time.slice(0, 8)}-${time.slice(8)}-7${partition.toString(16).padStart(3, "0")}-8000-${count}`
  }
}

function queriesOn(store: MemoryStore): Queries {
  const journal = openMemory(store)
  const parts = { journal, plans: new Plans(journal), largeOutputBytes: 1 << 20 }
  return new Queries({ ...parts, live: () => undefined, now: () => 0 })
}
