/**
 * Clients of the API, as careful ones are: each job under a key of its own, asked for again at any API process until it
 * is taken. What was answered with 2xx is written down: it must exist.
 */
import { openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { type Random, randomFrom } from "../crash/random.ts"
import type { Workload } from "../crash/workload.ts"
import { APPROVAL, approval } from "./workload.ts"

export interface ClientsOptions {
  readonly seed: number
  readonly doors: readonly string[]
  readonly workload: Workload
  readonly folder: string
  /** Jobs are spread over this time. */
  readonly spreadMs: number
  /** Jobs that have not ended. */
  readonly unfinished: () => Promise<number>
}

interface Answer {
  readonly status: number
  readonly body: { readonly job_id: string; readonly code?: string }
}

interface Insistence {
  readonly headers?: Readonly<Record<string, string>>
  /** Codes of refusals that do not last, and of those that mean it was done before. */
  readonly again?: readonly string[]
  readonly done?: readonly string[]
}

const LANES = 48
const ANSWER_MS = 5000
/** Beyond so many nobody asks for more: every take-over reads all of them, and faults come faster than they are done. */
const MOST_UNFINISHED = 1500
const LOOK_MS = 500
const AGAIN_MS = 100
/** Every so manyth job is asked for once more, and must be the same. */
const TWICE = 7

export class Clients {
  readonly problems: string[] = []
  /** Requests that were not answered, or with 5xx. */
  repeated = 0
  acknowledged = 0
  readonly #options: ClientsOptions
  readonly #random: Random
  readonly #log: number
  #next = 0
  #isFull = false

  constructor(options: ClientsOptions) {
    this.#options = options
    this.#random = randomFrom(options.seed + 2)
    this.#log = openSync(join(options.folder, "acknowledged.log"), "a")
  }

  /** Children first: a workflow that runs another one must find it. A handler is known once a worker has said so. */
  async register(): Promise<void> {
    for (const { definition } of this.#options.workload.shapes)
      await this.#insist("/workflows", definition, { again: ["E103"] })
  }

  /** Resolves when every job has been taken. */
  async submitAll(): Promise<void> {
    const { workload, spreadMs } = this.#options
    const began = performance.now()
    const lane = async () => {
      while (this.#next < workload.jobs.length) {
        const index = this.#next++
        const at = (index / workload.jobs.length) * spreadMs
        await delay(Math.max(0, began + at - performance.now()))
        while (this.#isFull) await delay(LOOK_MS)
        await this.#submit(index)
      }
    }
    const looking = setInterval(() => void this.#look(), LOOK_MS)
    await Promise.all(Array.from({ length: LANES }, lane))
    clearInterval(looking)
  }

  /** A database that is away says nothing: then it stays as it was. */
  async #look(): Promise<void> {
    const unfinished = await this.#options.unfinished().catch(() => null)
    if (unfinished !== null) this.#isFull = unfinished > MOST_UNFINISHED
  }

  async #submit(index: number): Promise<void> {
    const { workload } = this.#options
    const shape = workload.shapes[workload.jobs[index]!]!
    const body = { workflow: shape.definition.name, input: { index, never: false } }
    const headers = { "idempotency-key": `job-${index}` }
    for (let time = 0; time < (index % TWICE === 0 ? 2 : 1); time++) {
      const answer = await this.#insist("/jobs", body, { headers })
      if (answer === null) return
      const { job_id } = answer.body
      writeSync(this.#log, `${time === 0 ? "submitted" : "again"} ${index} ${job_id}\n`)
      if (time === 0 && shape === approval) await this.#approve(job_id)
    }
    this.acknowledged++
  }

  /** E302: an earlier request, of which nobody heard, has ended the job. */
  async #approve(id: string): Promise<void> {
    await this.#insist(`/jobs/${id}/signals/go`, APPROVAL, { done: ["E302"] })
  }

  /** null: it was refused for good, which is a problem. */
  async #insist(
    path: string,
    body: unknown,
    { headers = {}, again = [], done = [] }: Insistence,
  ): Promise<Answer | null> {
    for (;;) {
      const answer = await this.#ask(path, body, headers)
      const code = answer?.body.code ?? ""
      if (answer !== null && (answer.status < 300 || done.includes(code))) return answer
      if (answer !== null && answer.status < 500 && !again.includes(code)) {
        this.problems.push(`${path} was answered with ${answer.status}: ${JSON.stringify(answer.body)}`)
        return null
      }
      this.repeated++
      await delay(AGAIN_MS)
    }
  }

  /** null: nobody knows what came of it. */
  async #ask(path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<Answer | null> {
    try {
      const response = await fetch(this.#random.pick(this.#options.doors) + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(ANSWER_MS),
      })
      return { status: response.status, body: (await response.json()) as Answer["body"] }
    } catch {
      return null
    }
  }
}
