import { ARTIFACT_MARK, artifactsInText } from "../../core/artifacts.ts"
import { json, records } from "../joined-text.ts"
import { type AttemptRow, attemptRows, lineageRows } from "../lineage.ts"
import {
  ABANDONED_MS,
  CLAIM_PAGE,
  checkSentBefore,
  deadLetterPages,
  executionPage,
  inLineageOrder,
  type ScannedExecution,
  settled,
  storedKey,
} from "../pipeline-rules.ts"
import type {
  DeadLetterRow,
  ExecutionRow,
  LineageRow,
  MessageKey,
  MessageRow,
  ParkedState,
  PipelineCommit,
  PipelineStore,
  ReplayedRow,
} from "../port/pipelines.ts"
import { pipelineMessage, type StoredPipelineMessage } from "../rows.ts"
import { BEFORE_ALL_KEYS } from "../values.ts"
import { SqlStore, type Statement, type Values } from "./database.ts"

/** The number of ended executions that one statement of retention reads. */
const ENDED_PAGE = 100

type Argument<Verb extends keyof PipelineStore> = Parameters<PipelineStore[Verb]>[0]

/** Pipelines on PostgreSQL. */
export class SqlPipelineStore extends SqlStore implements PipelineStore {
  /** Repeats until the count was right: another process may have claimed meanwhile. */
  async claimExecution(claim: Argument<"claimExecution">) {
    for (;;) {
      const claims = await this.first<{ version: number }>("pipelineClaimsVersion")
      const row = await this.first<{ id: number | null }>("pipelineClaim", { ...claim, ...claims })
      if (row !== undefined) return row.id
    }
  }

  async readExecution(jobId: string): Promise<ExecutionRow | null> {
    return (await this.first<ExecutionRow>("pipelineExecution", { jobId })) ?? null
  }

  async listExecutions(query: Argument<"listExecutions">) {
    const statement = query.hasDeadLetters ? "pipelineExecutionsWithDeadLetters" : "pipelineExecutions"
    return executionPage(await this.database.query<ScannedExecution>(statement, query), query.limit)
  }

  async endExecution(end: Argument<"endExecution">): Promise<void> {
    await this.database.query("pipelineEnd", end)
  }

  async commit(commit: PipelineCommit) {
    const { execution, messages } = commit
    const texts = messages.flatMap(({ body }) => (body.includes(ARTIFACT_MARK) ? body : []))
    const hashes = texts.flatMap(artifactsInText)
    if (hashes.length > 0) await this.database.query("pipelineHoldArtifacts", { execution, hashes })
    const [row] = await this.database.append<Committed>("pipelineCommit", encodeCommit(commit))
    const { isHeld, isMoved, last } = row!
    if (isHeld && !isMoved) checkSentBefore(commit, last)
    return { isHeld }
  }

  async readMessages(query: Argument<"readMessages">): Promise<MessageRow[]> {
    return this.#messages("pipelineMessages", query)
  }

  async findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]> {
    return this.#messages("pipelineFindMessages", { execution, ...keyParameters(keys) })
  }

  async readRetries({ after = { dueAt: -1, seq: -1 }, ...query }: Argument<"readRetries">) {
    const values = { ...query, afterDueAt: after.dueAt, afterSeq: after.seq }
    return this.#messages<ParkedState>("pipelineRetries", values)
  }

  async listDeadLetters(query: Argument<"listDeadLetters">): Promise<DeadLetterRow[]> {
    const { route, seq } = query.after ?? BEFORE_ALL_KEYS
    return this.#messages("pipelineDeadLetters", { ...query, afterRoute: route, afterSeq: seq })
  }

  async deadLettersLeft(query: Argument<"deadLettersLeft">) {
    type Left = MessageKey & { readonly error: string; readonly count: number }
    const row = await this.first<Left>("pipelineDeadLettersLeft", query)
    if (row === undefined) return { count: 0, first: null }
    const { count, ...first } = row
    return { count, first }
  }

  /** In pages: there may be millions. A page that was claimed stays claimed when the next one fails. */
  async claimDeadLetters(claim: Argument<"claimDeadLetters">): Promise<number> {
    const { execution, bodies = [] } = claim
    const [editedRoutes, editedSeqs] = keyColumns(bodies)
    const edited = { editedRoutes, editedSeqs, bodies: records(bodies, ({ body }) => json(body)) }
    const keysAfter = (after: MessageKey) =>
      this.database.query<MessageKey>("pipelineDeadLetterKeys", { execution, ...after, limit: CLAIM_PAGE })
    for await (const keys of deadLetterPages(claim.keys, keysAfter))
      await this.database.query("pipelineClaimDeadLetters", { ...claim, ...keyParameters(keys), ...edited })
    return this.counted("pipelineCountReplayed", claim)
  }

  async readReplayed({ after, ...query }: Argument<"readReplayed">): Promise<ReplayedRow[]> {
    return this.#messages("pipelineReplayed", { ...BEFORE_ALL_KEYS, execution: -1, ...after, ...query })
  }

  async countReplayedBefore(letter: Argument<"countReplayedBefore">): Promise<number> {
    return this.counted("pipelineCountReplayedBefore", letter)
  }

  async findReplayed(query: Argument<"findReplayed">): Promise<MessageKey | null> {
    return (await this.first<MessageKey>("pipelineFindReplayed", query)) ?? null
  }

  async readLineage({ execution, keys, limit }: Argument<"readLineage">): Promise<LineageRow[]> {
    const values = { execution, ...keyParameters(keys), limit }
    const found = await this.database.query<AttemptRow>("pipelineLineage", values)
    return found.flatMap(lineageRows).sort(inLineageOrder).slice(0, limit)
  }

  async readGathered({ execution, into, limit }: Argument<"readGathered">): Promise<MessageKey[]> {
    return this.database.query<MessageKey>("pipelineGathered", { execution, ...keyParameters(into), limit })
  }

  async readStored(execution: number, keys: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const asked = new Map(keys.map(key => [key, storedKey(key)]))
    const values = { execution, keys: [...asked.values()] }
    const rows = await this.database.query<{ key: string; value: string }>("pipelineStored", values)
    const found = new Map(rows.map(({ key, value }) => [key, value]))
    return new Map(
      [...asked].filter(([, key]) => found.has(key)).map(([name, key]) => [name, found.get(key)!]),
    )
  }

  /** First the rows of removed jobs: all of them are removed, so this is the cheapest part. */
  async purgeLineage({ before, limit }: Argument<"purgeLineage">): Promise<number> {
    await this.database.query("pipelineSettle", { before, abandonedMs: ABANDONED_MS })
    const removed = await this.#purge("pipelineRemoveOrphans", limit, left => ({ limit: left }))
    // A row of lineage removes at most one message with it.
    const half = (left: number) => ({ before, limit: Math.max(1, Math.floor(left / 2)) })
    return removed + (await this.#purge("pipelineTrim", limit - removed, half))
  }

  /** Repeats until nothing is left, or enough was removed. */
  async #purge(statement: Statement, limit: number, of: (left: number) => object): Promise<number> {
    let removed = 0
    for (let isMore = limit > 0; isMore && (removed === 0 || limit - removed > 1); ) {
      const values = { ...of(limit - removed), page: ENDED_PAGE }
      const row = await this.first<{ gone: number; isMore: boolean }>(statement, values)
      removed += row!.gone
      isMore = row!.isMore
    }
    return removed
  }

  async #messages<More>(statement: Statement, values: object) {
    const found = await this.database.query<StoredPipelineMessage & More>(statement, values)
    return found.map(pipelineMessage) as (MessageRow & More)[]
  }
}

interface Committed {
  readonly isHeld: boolean
  readonly isMoved: boolean
  /** The number of the last commit of the execution, before this one. */
  readonly last: number | null
}

function encodeCommit(commit: PipelineCommit): Values {
  const { fence, execution, progress, messages, lineage } = commit
  const { parked, unparked, stored } = settled(commit)
  const attempts = attemptRows(lineage)
  return [
    fence.partition,
    fence.epoch,
    execution,
    commit.commit,
    progress,
    ...keyColumns(messages),
    messages.map(({ parent }) => parent?.route ?? null),
    messages.map(({ parent }) => parent?.seq ?? null),
    messages.map(({ root }) => root),
    messages.map(({ hops }) => hops),
    messages.map(({ at }) => at),
    records(messages, ({ body }) => json(body)),
    ...keyColumns(attempts),
    attempts.map(({ attempt }) => attempt),
    attempts.map(({ into }) => into),
    records(attempts, ({ steps }) => steps),
    ...keyColumns(parked),
    parked.map(({ attempts }) => attempts),
    parked.map(({ dueAt }) => dueAt),
    parked.map(({ at }) => at),
    records(parked, ({ error }) => json(error)),
    ...keyColumns(unparked),
    stored.map(([key]) => key),
    records(stored, ([, value]) => json(value)),
  ]
}

function keyColumns(keys: readonly MessageKey[]): [routes: number[], seqs: number[]] {
  return [keys.map(({ route }) => route), keys.map(({ seq }) => seq)]
}

function keyParameters(keys: readonly MessageKey[]) {
  const [routes, seqs] = keyColumns(keys)
  return { routes, seqs }
}
