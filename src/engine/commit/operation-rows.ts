import type { Effect, Unanswered } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import { findTask, type TaskRef } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { BegunOperation, LeftBehind } from "../../journal/port/providers.ts"
import type { LiveJob } from "../owner/live-job.ts"

/**
 * Rows that a batch writes beside its facts for operations at providers, in the same commit. Kept apart from the batch
 * so that a batch without external work carries nothing.
 */
export class OperationRows {
  readonly #begun = new Map<string, BegunOperation>()
  readonly #left = new Map<string, LeftBehind>()
  /** Submissions with an unknown outcome, of attempts that are no longer wanted. */
  readonly #unseen = new Map<string, BegunOperation>()
  readonly #slotLeaseMs: number
  /** Providers that may have a free slot after this batch. */
  readonly freed = new Set<string>()

  constructor(slotLeaseMs: number) {
    this.#slotLeaseMs = slotLeaseMs
  }

  /** Call after the fact was applied. */
  addFact(job: LiveJob, fact: Fact): void {
    switch (fact.type) {
      case "node_waiting":
      case "item_waiting":
        this.#begin(job, fact)
        break
      case "node_completed":
      case "node_skipped":
      case "item_completed":
        this.#leave(job, fact, fact.at, "ended")
        break
      case "signal_received":
        if (fact.node !== undefined) this.#leave(job, { ...fact, node: fact.node }, fact.at, "ended")
        break
      case "node_failed":
      case "item_failed":
        if (!mayStillRun(job, fact)) this.#leave(job, fact, fact.at, "ended")
    }
    if (jobHasEnded(job.state.status) && fact.type !== "job_deleted") this.#leaveAll(job, fact.at)
  }

  /** Call before `addFact` of the fact that has the effect. */
  addEffect(job: LiveJob, effect: OperationEffect, at: number): void {
    const of = { node: effect.node, item: effect.item }
    if (effect.type === "unanswered") this.#addUnseen(job, of, effect, at)
    else this.#leave(job, of, at, leftStates[effect.type])
  }

  /**
   * The attempt is no longer wanted, and its submission may be in flight or was never answered: an operation with an
   * unknown id may be running. Its slot moves to this row.
   */
  #addUnseen(job: LiveJob, of: TaskRef, { attempt, operation }: Unanswered, at: number): void {
    const { provider } = job.plan.nodes[of.node]!
    const key = rowKey(job.id, of)
    if (provider === null || this.#unseen.has(key)) return
    this.#unseen.set(key, {
      ...{ partition: job.partition, provider, externalId: unseenId(attempt), jobId: job.id, ...of, attempt },
      ...{ submittedAt: at, endedAt: null, cancelAt: null, slotUntil: at + this.#slotLeaseMs },
      unseen: { operation },
    })
  }

  get begun(): BegunOperation[] {
    return [...this.#begun.values(), ...this.#unseen.values()]
  }

  get left(): LeftBehind[] {
    return [...this.#left.values()]
  }

  /** Removes rows of jobs that are not kept. */
  keep(isKept: (row: { readonly partition: number; readonly jobId: string }) => boolean): void {
    for (const rows of [this.#begun, this.#unseen])
      for (const [key, row] of rows) if (!isKept(row)) rows.delete(key)
    for (const [key, row] of this.#left) if (!isKept(row)) this.#left.delete(key)
  }

  #begin(job: LiveJob, fact: Extract<Fact, { type: "node_waiting" | "item_waiting" }>): void {
    const { node, attempt, waiting, at } = fact
    if (waiting.kind !== "external") return
    const { provider, external_id: externalId } = waiting
    const times = { submittedAt: at, endedAt: null, cancelAt: null }
    const { id: jobId, partition } = job
    const item = fact.type === "item_waiting" ? fact.item : undefined
    const row = { partition, provider, externalId, jobId, node, item, attempt, ...times }
    this.#begun.set(rowKey(jobId, fact), row)
  }

  #leave(job: LiveJob, of: TaskRef, at: number, operation: LeftBehind["operation"]): void {
    const provider = job.plan.nodes[of.node]!.provider
    if (provider === null) return
    this.freed.add(provider)
    // One statement does not see its own rows: an operation that began in this batch carries its end itself.
    const key = rowKey(job.id, of)
    const begun = this.#begun.get(key)
    // A fact may repeat the end that one of its effects reported before in more detail: the first counts, as for `left`.
    const slot = operation === "cancel" ? { slotUntil: at + this.#slotLeaseMs } : {}
    if (begun?.endedAt === null && operation !== "none")
      this.#begun.set(key, { ...begun, endedAt: at, cancelAt: operation === "cancel" ? at : null, ...slot })
    if (this.#left.has(key)) return
    this.#left.set(key, {
      partition: job.partition,
      jobId: job.id,
      node: of.node,
      item: of.item,
      at,
      operation,
      ...slot,
    })
  }

  #leaveAll(job: LiveJob, at: number): void {
    for (const provider of job.plan.providers) this.freed.add(provider)
    const { id: jobId, partition } = job
    this.#left.set(rowKey(jobId, null), { partition, jobId, node: null, at, operation: "none" })
  }
}

/**
 * An attempt whose submission got no answer, or an operation that could not be followed, may have begun all the same,
 * and is retried under the same key: it keeps its slot until then. A provider that rejected the submission for lack of
 * capacity has begun nothing, unless an earlier attempt has.
 */
function mayStillRun(job: LiveJob, fact: Extract<Fact, { type: "node_failed" | "item_failed" }>): boolean {
  if (fact.retry_at === undefined) return false
  const place = findTask(job.state, fact)
  return place?.state.unfollowed.has(place.position) === true
}

export type OperationEffect = Exclude<Effect, { readonly type: "dispatch" | "hold" | "abort" | "end" }>

const leftStates = { abandon: "cancel", operation_failed: "ended", release_slot: "none" } as const

/** A provider's id never contains a control character. Each attempt of a node may leave one such row. */
function unseenId(attempt: number): string {
  return `\u0001${attempt}`
}

function rowKey(jobId: string, of: TaskRef | null): string {
  return of === null ? jobId : `${jobId}/${of.node}/${of.item}`
}
