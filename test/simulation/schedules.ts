/**
 * Schedules of a simulated fleet: they are edited, paused, resumed and run while engines die and their clocks jump. Every tick has
 * one outcome, and one job if it started.
 */
import type { Engine } from "../../src/engine/engine.ts"
import { ScheduleRequests } from "../../src/jobs/schedules/schedules.ts"
import { type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { ScheduleRequest } from "../../src/schedule/document.ts"
import type { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Random } from "../crash/random.ts"
import { factsOf, jobsOf } from "../support/store-tables.ts"

const COUNT = 8
const PERIOD_MS = 2000

interface Parts {
  readonly store: MemoryStore
  readonly random: Random
  readonly clock: VirtualClock
  readonly owner: string
}

export class SimulatedSchedules {
  readonly #parts: Parts
  #workflows: readonly string[] = []
  started = 0

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async create(workflows: readonly string[]): Promise<void> {
    this.#workflows = workflows
    const requests = this.#requests([])
    for (let i = 0; i < COUNT; i++)
      await requests.put(`s${i}`, this.#document(i), { owner: this.#parts.owner })
  }

  /** The first two are never changed: none of their ticks may be left out. */
  #document(index: number): ScheduleRequest {
    const { random } = this.#parts
    return {
      workflow: random.pick(this.#workflows),
      every: "2s",
      overlap: index < 2 ? "allow" : random.pick(["allow", "skip", "queue_one", "cancel_running"] as const),
      catch_up: index < 2 ? "all" : random.pick(["none", "last", "all"] as const),
      jitter_seconds: random.pick([0, 0, 1]),
    }
  }

  #requests(engines: readonly Engine[]): ScheduleRequests {
    const { store, clock } = this.#parts
    return new ScheduleRequests({
      journal: openMemory(store),
      firing: {
        changed(partition) {
          for (const engine of engines) engine.schedules.changed(partition)
        },
      },
      submit: () => Promise.reject(new Error("no run")),
      startBackfill: () => Promise.reject(new Error("no backfill")),
      now: () => clock.now(),
    })
  }

  async something(engines: readonly Engine[]): Promise<void> {
    const { random, owner } = this.#parts
    if (!random.chance(0.2)) return
    const index = random.between(2, COUNT - 1)
    const requests = this.#requests(engines)
    const act = random.pick(["put", "pause", "resume"] as const)
    if (act === "put") await requests.put(`s${index}`, this.#document(index), { owner })
    else await requests[act](`s${index}`, { owner })
  }

  /** No tick comes any more. */
  async stop(engines: readonly Engine[]): Promise<void> {
    const requests = this.#requests(engines)
    for (let i = 0; i < COUNT; i++) await requests.pause(`s${i}`, { owner: this.#parts.owner })
  }

  async judge(): Promise<string[]> {
    const { store, owner } = this.#parts
    const found: string[] = []
    const jobs = new Map<string, string>()
    for (const { id } of jobsOf(store)) {
      const facts = factsOf(store, id)
      const { schedule } = JSON.parse(facts[0]!.data!) as { schedule?: { name: string; tick: number } }
      if (schedule === undefined) continue
      const tick = `${schedule.name} ${new Date(schedule.tick).toISOString()}`
      if (facts.filter(({ type }) => type === "job_submitted").length > 1)
        found.push(`${tick} was submitted twice`)
      if (jobs.has(tick)) found.push(`${tick} has two jobs`)
      jobs.set(tick, id)
    }
    const requests = this.#requests([])
    for (let i = 0; i < COUNT; i++) {
      const name = `s${i}`
      const { fires } = await requests.fires(name, { owner, limit: 100_000 })
      for (const { tick, outcome, job_id } of fires) {
        const job = jobs.get(`${name} ${tick}`) ?? null
        if (outcome === "queued") found.push(`${name} ${tick} is queued for ever`)
        if (job !== job_id) found.push(`${name} ${tick} has the job ${job}, its outcome says ${job_id}`)
        jobs.delete(`${name} ${tick}`)
        if (outcome === "started") this.started++
      }
      if (i >= 2) continue
      const ticks = fires.map(({ tick }) => Date.parse(tick)).reverse()
      for (const [at, tick] of ticks.entries())
        if (tick !== ticks[0]! + at * PERIOD_MS) found.push(`${name}: a tick before ${tick} is lost`)
      if (fires.some(({ outcome }) => outcome !== "started")) found.push(`${name}: a tick has not started`)
    }
    for (const tick of jobs.keys()) found.push(`${tick} has a job and no outcome`)
    return found
  }
}
