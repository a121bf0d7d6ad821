import type { Command, Submit } from "../../core/commands.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import { jobPartition } from "../ids.ts"
import type { EngineSettings } from "../settings.ts"
import type { Answer } from "./inbox.ts"
import { KnownEngines } from "./known-engines.ts"
import { refusalError } from "./refusals.ts"
import { noEngine, RemoteCommands } from "./remote-commands.ts"

/** The request is given up early if no engine answers. */
export type Hurry = "hurry"

/** The engines of other processes: they take jobs of this process and execute its commands, as if they were here. */
export class RemoteEngines {
  readonly #journal: Journal
  readonly #clock: Clock
  readonly known: KnownEngines
  readonly #remoteCommands: RemoteCommands
  /** A dead engine is replaced only after its lease has passed: a caller that can use another engine need not wait for that. */
  readonly #hurryMs: number

  constructor(parts: {
    readonly journal: Journal
    readonly clock: Clock
    readonly settings: EngineSettings
    /** This process may itself take over a silent partition, so waiting makes sense also when no other engine is alive. */
    readonly takesPartitions: boolean
  }) {
    const { journal, clock, settings, takesPartitions } = parts
    this.#journal = journal
    this.#clock = clock
    this.#hurryMs = (settings.leaseSeconds * 1000) / 2
    this.known = new KnownEngines({
      leaseMs: settings.leaseSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      now: () => clock.now(),
      random: () => clock.random(),
    })
    const mayAnswer = () => takesPartitions || this.known.mayAnswer
    this.#remoteCommands = new RemoteCommands({ journal, clock, mayAnswer })
  }

  /** Resolves once a heartbeat has listed the engines; waits for an engine that is just taking its partitions. */
  whenKnown(): Promise<void> {
    return this.known.whenKnown(this.#hurryMs)
  }

  /** The partition of a new job. Throws E610 when there is none. */
  pick(): number {
    const partition = this.known.pick()
    if (partition === null) throw noEngine()
    return partition
  }

  /** Resolves with the job's creation time when it is durable; null: it existed before. Throws E613: nothing has happened. */
  async submit(id: string, command: Submit, hurry?: Hurry): Promise<number | null> {
    const patienceMs = hurry === "hurry" ? this.#hurryMs : ANSWER_MS
    const answer = await this.#remoteCommands.execute(id, command, patienceMs).catch(error => {
      if (error instanceof UmbraError && error.code === "E613") this.known.unanswered(jobPartition(id))
      throw error
    })
    if (!("refused" in answer)) return answer.created_at ?? this.#clock.now()
    if (answer.refused === "job_exists") return null
    throw refusalError(answer.refused, id)
  }

  /** An id may name a partition that does not exist: it is looked up first, or the command would wait in vain. */
  async command(jobId: string, command: Command): Promise<Answer> {
    if ((await this.#journal.readJob(jobId)) === null) return { refused: "no_such_job" }
    return this.#remoteCommands.execute(jobId, command, ANSWER_MS)
  }
}

/** Longer than a take-over after the lease takes. */
const ANSWER_MS = 30_000
