/**
 * Processes that share a store and a provider, killed at random while webhooks and polls race, then judged by the
 * provider's own log and by the journal. Every choice comes from the seed; the operating system's timing does not.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { Json } from "../../../src/core/json.ts"
import { openJournal } from "../../../src/journal/open.ts"
import type { HttpProviderDefinition } from "../../../src/provider/http-spec.ts"
import { FakeProvider, type FakeScript } from "../../../src/testing/fake-provider.ts"
import { type Random, randomFrom } from "../../crash/random.ts"
import { type DrawnOptions, drawn, itemsOf } from "./drawn.ts"
import { type Judgement, judge } from "./judge.ts"
import { ProviderLife } from "./life.ts"

export interface ExternalCampaignOptions {
  readonly seed: number
  /** Where the jobs live; null: a folder of the campaign's own (SQLite), for one process at a time. */
  readonly location: string | null
  readonly jobs: number
  readonly processes: number
  readonly kills: number
  /** Slots of the provider. */
  readonly limit: number
  /** Webhooks of one operation, each to another process; the poll comes at the same time. */
  readonly webhooks: number
  /** Does the provider also misbehave, in every way of drawn.ts? */
  readonly faults?: boolean
  /** An operation takes up to so long; default 30. Much longer: the slots are all in use. */
  readonly workMs?: number
  readonly print?: (line: string) => void
}

export interface ExternalVerdict extends Judgement {
  readonly mostAtOnce: number
  readonly seconds: number
}

const OPEN_MS = 180_000
/** On a busy machine of two cores a job takes up to 80 ms: longer means stuck. */
const idleMs = (jobs: number) => 180_000 + 300 * jobs

const film = {
  id: "film",
  handler: "external",
  provider: "fake",
  config: { of: "{{ input.index }}" },
  retry: { max_attempts: 50, initial_seconds: 0.02, max_seconds: 0.1 },
}

/** One operation; or one for each item of a list. */
const workflows = {
  one: { name: "one", nodes: [film], output: "{{ film.made }}" },
  list: {
    name: "list",
    nodes: [{ ...film, for_each: "{{ input.items }}", config: { of: "{{ input.index }}/{{ item }}" } }],
    output: "{{ film | map(attribute='made') }}",
  },
}

export async function externalCampaign(options: ExternalCampaignOptions): Promise<ExternalVerdict> {
  const began = performance.now()
  const folder = await mkdtemp(join(tmpdir(), "umbra-external-"))
  const location = options.location ?? join(folder, "store")
  const stage = new CampaignStage(options)
  const { fake, draw } = stage
  await fake.listen()
  try {
    const task = join(folder, "task.json")
    const jobs = Array.from({ length: options.jobs }, (_, index) => submissionOf(index))
    await writeFile(task, JSON.stringify({ ...taskOf(fake, options), location, workflows, jobs }))
    await stage.run(task)
    await fake.played()
    const journal = await openJournal(location)
    try {
      const judgement = await judge({ journal, fake, draw, ...options })
      return { ...judgement, mostAtOnce: fake.mostAtOnce, seconds: (performance.now() - began) / 1000 }
    } finally {
      await journal.close()
    }
  } finally {
    await fake.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** At least so many: some are repeated. */
function operationsOf(jobs: number): number {
  return Array.from({ length: jobs }, (_, index) => Math.max(1, itemsOf(index))).reduce((a, b) => a + b, 0)
}

function submissionOf(index: number) {
  const items = itemsOf(index)
  return items === 0
    ? { workflow: "one", input: { index } }
    : { workflow: "list", input: { index, items: Array.from({ length: items }, (_, item) => item) } }
}

function taskOf(fake: FakeProvider, { limit, faults = false }: ExternalCampaignOptions) {
  const limits = { concurrency: limit, rate: null, poll_seconds: [0.05, 0.1], poll_jitter: 1 }
  const patience = faults ? { timeout_seconds: 0.5 } : {}
  const definition: HttpProviderDefinition = { ...fake.definition(), ...limits, ...patience }
  const engine = { beatSeconds: 0.2, leaseSeconds: 1, providerSweepSeconds: 0.2, drainSeconds: 2 }
  return { definition, engine, secret: fake.secret }
}

class CampaignStage {
  readonly fake: FakeProvider
  readonly draw: DrawnOptions
  readonly #options: ExternalCampaignOptions
  readonly #random: Random
  readonly #doors = new Map<number, string>()
  #spent = 0

  constructor(options: ExternalCampaignOptions) {
    const { seed, webhooks, faults = false, limit, workMs = 30 } = options
    this.#options = options
    this.#random = randomFrom(seed)
    this.draw = { seed, webhooks, faults, workMs }
    this.fake = new FakeProvider({
      limit,
      signsTime: true,
      webhookUrl: () => this.#door(),
      script: ({ key, request }) => this.#script(key, request),
    })
  }

  #script(key: string, request: Json): FakeScript {
    const [index, item] = String((request as { of: Json }).of).split("/")
    const number = (item === undefined ? /\/film\/(\d+)$/ : /\/film\/\d+\/(\d+)$/).exec(key)?.[1]
    return drawn(Number(index), this.draw)[Number(item ?? 0)]!.scripts[Number(number ?? 0)] ?? {}
  }

  /** null: nobody is there right now. Whoever was there may have just died, too: then a webhook is lost. */
  #door(): string | null {
    const doors = [...this.#doors.values()]
    return doors.length === 0 ? null : this.#random.pick(doors)
  }

  async run(task: string): Promise<void> {
    const { processes } = this.#options
    const last: ProviderLife[] = []
    try {
      await Promise.all(
        Array.from({ length: processes }, async (_, from) => {
          const begin = await this.#dieAgainAndAgain(task, from)
          const life = await this.#begin(task, from, { from: begin, to: this.#options.jobs })
          last.push(life)
          await life.says("idle", idleMs(this.#options.jobs))
        }),
      )
      await Promise.all(last.map(life => life.close()))
    } finally {
      for (const life of last) await life.kill()
    }
  }

  /** How far it may get rises with each death. Answers where the next life begins. */
  async #dieAgainAndAgain(task: string, place: number): Promise<number> {
    const { kills, jobs, print } = this.#options
    const operations = operationsOf(jobs)
    let from = place
    while (this.#spent < kills) {
      const number = ++this.#spent
      const life = await this.#begin(task, place, { from, to: Math.ceil((jobs * number) / kills) })
      await this.#taken((operations * (number - 1)) / (kills + 1))
      await delay(this.#random.between(0, 400))
      this.#doors.delete(place)
      await life.kill()
      from = life.reached ?? from
      print?.(`kill ${number}/${kills}: ${this.fake.operations.size} operations so far`)
    }
    return from
  }

  async #begin(
    task: string,
    place: number,
    share: { readonly from: number; readonly to: number },
  ): Promise<ProviderLife> {
    const life = new ProviderLife({ task, ...share, step: this.#options.processes })
    this.#doors.set(place, await life.door(OPEN_MS))
    return life
  }

  /** Kills are spread over the whole run: each waits until so many operations have been taken. */
  async #taken(operations: number): Promise<void> {
    const deadline = performance.now() + idleMs(this.#options.jobs)
    while (this.fake.operations.size < operations) {
      if (performance.now() > deadline)
        throw new Error(`no more than ${this.fake.operations.size} operations`)
      await delay(20)
    }
  }
}
