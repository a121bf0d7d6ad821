import type { Command } from "../../core/commands.ts"
import { UmbraError } from "../../errors.ts"
import { JournalDataError, JournalUnavailableError } from "../../journal/errors.ts"
import type { Journal, NewMessage } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import { jobPartition } from "../ids.ts"
import type { Answer } from "./inbox.ts"

/**
 * Commands for jobs of partitions that another process owns: sends them as messages, and waits for the answers. It needs
 * no engine in this process.
 *
 * 1. While one statement is in flight the next one collects: a hundred commands at once cost a few statements, not hundreds.
 * 2. A command ends with its answer, or with its message withdrawn: then nothing has happened, and nothing will.
 * 3. A message whose answer is known here is removed: it holds a job's input, and no other process will read it.
 */
export interface RemoteCommandsParts {
  readonly journal: Journal
  readonly clock: Clock
  /** false: no live engine could answer, so waiting is useless. */
  readonly mayAnswer?: () => boolean
}

interface PendingCommand {
  readonly message: NewMessage
  readonly deadline: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

interface SentCommand extends PendingCommand {
  readonly id: number
  /** When its answer is polled next; `wait` is the interval after that. */
  due: number
  wait: number
}

export class RemoteCommands {
  readonly #parts: RemoteCommandsParts
  readonly #unsent: PendingCommand[] = []
  readonly #sent = new Map<number, SentCommand>()
  #answered: number[] = []
  #isSending = false
  #isPolling = false
  #isRemoving = false
  #wake = () => {}

  constructor(parts: RemoteCommandsParts) {
    this.#parts = parts
  }

  /** Throws E610 when there is no engine, E613 when no engine answered in time. */
  execute(jobId: string, command: Command, timeoutMs: number): Promise<Answer> {
    const sentAt = this.#parts.clock.now()
    const message = { partition: jobPartition(jobId), jobId, command: JSON.stringify(command), sentAt }
    return new Promise((resolve, reject) => {
      this.#unsent.push({ message, deadline: sentAt + timeoutMs, resolve, reject })
      if (!this.#isSending) void this.#sendAll()
    })
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true
    // Commands of the same turn of the event loop share one statement.
    await null
    while (this.#unsent.length > 0) await this.#send(this.#nextBatch())
    this.#isSending = false
  }

  #nextBatch(): PendingCommand[] {
    let bytes = 0
    const count = this.#unsent.findIndex(({ message }, index) => {
      bytes += message.command.length
      return index === MAX_MESSAGES || (index > 0 && bytes > MAX_BYTES)
    })
    return this.#unsent.splice(0, count < 0 ? this.#unsent.length : count)
  }

  async #send(batch: readonly PendingCommand[]): Promise<void> {
    try {
      const ids = await this.#parts.journal.sendMessages(batch.map(({ message }) => message))
      const now = this.#parts.clock.now()
      batch.forEach((pending, index) => {
        const id = ids[index]!
        this.#sent.set(id, { ...pending, id, due: now + FIRST_POLL_MS, wait: FIRST_POLL_MS })
      })
      this.#wake()
      if (!this.#isPolling) void this.#pollUntilDone()
    } catch (error) {
      // A command that cannot be stored must not block the others.
      if (error instanceof JournalDataError && batch.length > 1)
        for (const pending of batch) await this.#send([pending])
      else for (const { reject } of batch) reject(error)
    }
  }

  async #pollUntilDone(): Promise<void> {
    this.#isPolling = true
    while (this.#sent.size > 0) {
      await this.#untilDue()
      await this.#pollAnswers().catch(error => this.#pollFailed(error))
      await this.#withdrawLate()
    }
    this.#isPolling = false
    this.#removeAnsweredSoon()
  }

  /** Or until another command was sent, which may be due earlier. */
  #untilDue(): Promise<void> | undefined {
    const { clock } = this.#parts
    let first = Number.POSITIVE_INFINITY
    for (const { due } of this.#sent.values()) first = Math.min(first, due)
    const ms = first - clock.now()
    if (ms <= 0) return undefined
    return new Promise(resolve => {
      const cancel = clock.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }

  /** Polls the answers of all of them: one more id in the list costs next to nothing. */
  async #pollAnswers(): Promise<void> {
    const forget = this.#answered
    this.#answered = []
    const answers = await this.#parts.journal.readAnswers({ messageIds: [...this.#sent.keys()], forget })
    for (const [id, answer] of answers) this.#settle(id, answer)
    this.#postpone(pending => pending.wait * LATER)
  }

  #pollFailed(error: unknown): void {
    if (error instanceof JournalUnavailableError && error.final) {
      for (const { reject } of this.#sent.values()) reject(error)
      this.#sent.clear()
    }
    this.#postpone(() => MAX_POLL_MS)
  }

  #postpone(wait: (pending: SentCommand) => number): void {
    const now = this.#parts.clock.now()
    for (const pending of this.#sent.values()) {
      if (pending.due > now) continue
      pending.wait = Math.min(wait(pending), MAX_POLL_MS)
      pending.due = now + pending.wait
    }
  }

  /** Usually the next poll removes them. Messages that a process leaves behind when it ends are removed by retention. */
  #removeAnsweredSoon(): void {
    if (this.#isRemoving) return
    this.#isRemoving = true
    this.#parts.clock.after(FORGET_MS, () => {
      this.#isRemoving = false
      const forget = this.#answered
      this.#answered = []
      if (forget.length > 0) void this.#parts.journal.readAnswers({ messageIds: [], forget }).catch(() => {})
    })
  }

  #settle(id: number, answer: string): void {
    const pending = this.#sent.get(id)
    this.#sent.delete(id)
    this.#answered.push(id)
    pending?.resolve(JSON.parse(answer) as Answer)
  }

  async #withdrawLate(): Promise<void> {
    const { clock, mayAnswer } = this.#parts
    const isHopeless = mayAnswer?.() === false
    const late = [...this.#sent.values()].filter(({ deadline }) => isHopeless || clock.now() >= deadline)
    for (const pending of late) {
      this.#sent.delete(pending.id)
      await this.#withdraw(pending, isHopeless).catch(pending.reject)
    }
  }

  async #withdraw({ id, resolve, reject }: SentCommand, isHopeless: boolean): Promise<void> {
    const { journal } = this.#parts
    if (await journal.withdrawMessage(id)) return reject(isHopeless ? noEngine() : noAnswer())
    const answer = (await journal.readAnswers({ messageIds: [id] })).get(id)
    this.#answered.push(id)
    if (answer === undefined) reject(noAnswer())
    else resolve(JSON.parse(answer) as Answer)
  }
}

/** There is no engine that could take the message. */
export function noEngine(): UmbraError {
  return new UmbraError(
    "E610",
    "No live engine owns a partition at the moment. Start one on this database (`umbra serve --roles engine,worker`), or try again shortly.",
  )
}

function noAnswer(): UmbraError {
  return new UmbraError(
    "E613",
    "No engine answered in time; the command was withdrawn. Start an engine on this database and send the command again.",
  )
}

const FIRST_POLL_MS = 2
const LATER = 1.5
const MAX_POLL_MS = 250
const FORGET_MS = 200
const MAX_MESSAGES = 500
const MAX_BYTES = 4 * 1024 * 1024
