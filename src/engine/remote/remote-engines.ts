import type { Command, Submit } from "../../core/commands.ts"
import { UmbraError } from "../../errors.ts"
import type { Heartbeat, Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import { partitionOf } from "../ids.ts"
import type { EngineSettings } from "../settings.ts"
import type { Answer } from "./inbox.ts"
import { type AwayOwner, KnownEngines } from "./known-engines.ts"
import { refusalError } from "./refusals.ts"
import { nobodyThere, RemoteCommands } from "./remote-commands.ts"

/** Given up early if nobody answers. */
export type Hurry = "hurry"

/** What the engines of other processes do for this one: take its jobs, and carry out its commands, as if they were here. */
export class RemoteEngines {
  readonly #journal: Journal
  readonly #clock: Clock
  readonly #owners: KnownEngines
  readonly #questions: RemoteCommands
  /** An engine that has died is not replaced before its lease has passed: who can ask another need not wait for that. */
  readonly #impatientMs: number

  constructor(parts: {
    readonly journal: Journal
    readonly clock: Clock
    readonly settings: EngineSettings
    /** This process may take over what nobody answers for, so waiting is not in vain when no other lives. */
    readonly takesPartitions: boolean
  }) {
    const { journal, clock, settings, takesPartitions } = parts
    this.#journal = journal
    this.#clock = clock
    this.#impatientMs = (settings.leaseSeconds * 1000) / 2
    this.#owners = new KnownEngines({
      leaseMs: settings.leaseSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      now: () => clock.now(),
      random: () => clock.random(),
    })
    const mayAnswer = () => takesPartitions || this.#owners.mayAnswer
    this.#questions = new RemoteCommands({ journal, clock, mayAnswer })
  }

  receive(pulse: Heartbeat): void {
    this.#owners.receive(pulse)
  }

  /** Does an engine of another process take jobs? */
  get hasTaker(): boolean {
    return this.#owners.hasTaker
  }

  /** Has one done so since this process started? */
  get hadTaker(): boolean {
    return this.#owners.hadTaker
  }

  /** Set if no live engine can know anything of the job. */
  awayOwner(jobId: string): AwayOwner | null {
    return this.#owners.awayOwner(partitionOf(jobId))
  }

  /** Resolves once a beat has told who is there; an engine that is just taking its partitions is waited for. */
  whenKnown(): Promise<void> {
    return this.#owners.whenKnown(this.#impatientMs)
  }

  whenHeard(patienceMs: number): Promise<void> {
    return this.#owners.whenHeard(patienceMs)
  }

  stop(): void {
    this.#owners.stop()
  }

  /** The partition of a new job. Throws E610 when there is none. */
  pick(): number {
    const partition = this.#owners.pick()
    if (partition === null) throw nobodyThere()
    return partition
  }

  /** Resolves with the job's time when it is durable; null: it was there before. Throws E613: nothing has happened. */
  async submit(id: string, command: Submit, hurry?: Hurry): Promise<number | null> {
    const patienceMs = hurry === "hurry" ? this.#impatientMs : ANSWER_MS
    const answer = await this.#questions.ask(id, command, patienceMs).catch(error => {
      if (error instanceof UmbraError && error.code === "E613") this.#owners.unanswered(partitionOf(id))
      throw error
    })
    if (!("refused" in answer)) return answer.created_at ?? this.#clock.now()
    if (answer.refused === "job_exists") return null
    throw refusalError(answer.refused, id)
  }

  /** An id may name a partition that nobody will ever own: looked up first, or the question would wait in vain. */
  async command(jobId: string, command: Command): Promise<Answer> {
    if ((await this.#journal.readJob(jobId)) === null) return { refused: "no_such_job" }
    return this.#questions.ask(jobId, command, ANSWER_MS)
  }
}

/** Longer than a take-over after the lease takes. */
const ANSWER_MS = 30_000
