/**
 * Processes that share a database and a provider, killed at random while webhooks and polls race, then judged by the
 * provider's own log and by the journal. Every choice comes from the seed; the operating system's timing does not.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { openJournal } from "../../../src/journal/open.ts"
import type { Journal } from "../../../src/journal/port.ts"
import type { HttpProviderDefinition } from "../../../src/provider/http-spec.ts"
import { type FakeOperation, FakeProvider } from "../../../src/testing/fake-provider.ts"
import { type Random, randomFrom } from "../../crash/random.ts"
import { ProviderLife } from "./life.ts"

export interface ExternalCampaignOptions {
  readonly seed: number
  readonly location: string
  readonly jobs: number
  readonly processes: number
  readonly kills: number
  /** Slots of the provider. */
  readonly limit: number
  /** Webhooks of one operation, each to another process; the poll comes at the same time. */
  readonly webhooks: number
  /** Does the provider also misbehave (500, 429, lost answers, lost and late webhooks)? */
  readonly faults?: boolean
  /** An operation takes at most this long, and at least half of it. */
  readonly lastsMs?: number
  readonly tell?: (line: string) => void
}

export interface ExternalVerdict {
  readonly problems: readonly string[]
  readonly operations: number
  /** Operations that were submitted more than once, always under one key. */
  readonly repeated: number
  readonly mostAtOnce: number
  readonly seconds: number
}

const OPEN_MS = 60_000
/** On a busy machine of two cores a job takes up to 80 ms: longer means stuck. */
const idleMs = (jobs: number) => 60_000 + 300 * jobs

const workflow = {
  name: "external",
  nodes: [
    {
      id: "film",
      handler: "external",
      provider: "fake",
      config: { index: "{{ input.index }}" },
      retry: { max_attempts: 50, initial_seconds: 0.02, max_seconds: 0.1 },
    },
  ],
  output: "{{ film.made }}",
}

export async function externalCampaign(options: ExternalCampaignOptions): Promise<ExternalVerdict> {
  const began = performance.now()
  const stage = new CampaignStage(options)
  await stage.fake.listen()
  const folder = await mkdtemp(join(tmpdir(), "umbra-external-"))
  try {
    const task = join(folder, "task.json")
    const figures = { concurrency: options.limit, rate: null, poll_seconds: [0.05, 0.1], poll_jitter: 1 }
    const definition: HttpProviderDefinition = { ...stage.fake.definition(), ...figures }
    const engine = { beatSeconds: 0.2, leaseSeconds: 1, providerSweepSeconds: 0.2, drainSeconds: 2 }
    const { location } = options
    await writeFile(
      task,
      JSON.stringify({ location, definition, secret: stage.fake.secret, engine, workflow }),
    )
    await stage.run(task)
    const journal = await openJournal(location)
    try {
      return { ...(await stage.judge(journal)), seconds: (performance.now() - began) / 1000 }
    } finally {
      await journal.close()
    }
  } finally {
    await stage.fake.close()
    await rm(folder, { recursive: true, force: true })
  }
}

class CampaignStage {
  readonly fake: FakeProvider
  readonly #options: ExternalCampaignOptions
  readonly #random: Random
  readonly #doors = new Map<number, string>()

  constructor(options: ExternalCampaignOptions) {
    this.#options = options
    this.#random = randomFrom(options.seed)
    this.fake = new FakeProvider({ limit: options.limit, onSubmit: operation => this.#taken(operation) })
  }

  /** The operation ends soon; its webhooks go to several processes at the moment at which polls find it too. */
  #taken({ id }: FakeOperation): void {
    const { faults = false, webhooks, lastsMs = 30 } = this.#options
    if (faults) this.#misbehave()
    this.fake.later(this.#random.between(lastsMs / 2, lastsMs), () => {
      this.fake.complete(id)
      if (faults && this.#random.chance(0.2)) return
      for (let n = 0; n < webhooks; n++) this.#deliver(id, faults && this.#random.chance(0.2) ? 200 : 0)
    })
  }

  #misbehave(): void {
    const { fake } = this
    const random = this.#random
    if (random.chance(0.05)) fake.misbehave({ route: "poll", status: 500 })
    if (random.chance(0.02)) fake.misbehave({ route: "poll", status: 429, headers: { "retry-after": "0" } })
    if (random.chance(0.05)) fake.misbehave({ route: "submit", status: 502, afterwards: true })
    if (random.chance(0.03)) fake.misbehave({ route: "submit", status: 429, headers: { "retry-after": "0" } })
  }

  #deliver(id: string, afterMs: number): void {
    const doors = [...this.#doors.values()]
    const url = doors[this.#random.between(0, Math.max(0, doors.length - 1))]
    // Nobody is there right now, or whoever was has just died: then this webhook is lost.
    if (url !== undefined) this.fake.later(afterMs, () => this.fake.deliver(id, { url }).catch(() => {}))
  }

  async run(task: string): Promise<void> {
    const { processes, kills, jobs, tell } = this.#options
    let spent = 0
    const live = async (from: number): Promise<void> => {
      while (spent < kills) {
        const number = ++spent
        const to = Math.ceil((jobs * number) / kills)
        const life = await this.#begin(task, { from, to, step: processes })
        await delay(this.#random.between(0, 400))
        this.#doors.delete(from)
        await life.kill()
        tell?.(`kill ${number}/${kills}: ${this.fake.operations.size} operations so far`)
      }
    }
    await Promise.all(Array.from({ length: processes }, (_, from) => live(from)))
    const lives = await Promise.all(
      Array.from({ length: processes }, (_, from) => this.#begin(task, { from, to: jobs, step: processes })),
    )
    try {
      await Promise.all(lives.map(life => life.says("idle", idleMs(jobs))))
      await Promise.all(lives.map(life => life.close()))
    } finally {
      for (const life of lives) await life.kill()
    }
  }

  async #begin(task: string, share: { from: number; to: number; step: number }): Promise<ProviderLife> {
    const life = new ProviderLife({ task, ...share })
    this.#doors.set(share.from, await life.door(OPEN_MS))
    return life
  }

  async judge(journal: Journal): Promise<Omit<ExternalVerdict, "seconds">> {
    const { jobs, limit } = this.#options
    const { fake } = this
    const problems: string[] = []
    const rows = await journal.listJobs({ limit: jobs + 1 })
    if (rows.length !== jobs) problems.push(`${rows.length} jobs instead of ${jobs}`)
    for (const { id, status } of rows) if (status !== "COMPLETED") problems.push(`job ${id} is ${status}`)
    const completions = await completionsOf(
      journal,
      rows.map(({ id }) => id),
    )
    for (const [id, count] of completions)
      if (count !== 1) problems.push(`job ${id} completed ${count} times`)
    const keys = new Set([...fake.operations.values()].map(({ key }) => key))
    const expected = new Set(rows.map(({ id }) => `${id}/film`))
    for (const key of keys) if (!expected.has(key)) problems.push(`nobody asked for ${key}`)
    if (fake.operations.size !== jobs) problems.push(`${fake.operations.size} operations for ${jobs} nodes`)
    if (fake.overLimit > 0)
      problems.push(
        `the provider saw ${fake.mostAtOnce} at once, ${fake.overLimit} times over the limit ${limit}`,
      )
    const { held, waiting } = await journal.providers.overview({ provider: "fake", at: Date.now() })
    if (held.length + waiting > 0)
      problems.push(`${held.length} slots held and ${waiting} waiting at the end`)
    const repeated = [...fake.operations.values()].filter(({ submissions }) => submissions > 1).length
    return { problems, operations: fake.operations.size, repeated, mostAtOnce: fake.mostAtOnce }
  }
}

async function completionsOf(journal: Journal, ids: readonly string[]): Promise<Map<string, number>> {
  const counts = new Map(ids.map(id => [id, 0]))
  for (let i = 0; i < ids.length; i += 500)
    for (const { jobId, type } of await journal.readFacts(ids.slice(i, i + 500)))
      if (type === "node_completed") counts.set(jobId, counts.get(jobId)! + 1)
  return counts
}
