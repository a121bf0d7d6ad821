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
import type { Database, Statement, Values } from "./database.ts"

/** The number of ended executions that one statement of retention reads. */
const ENDED_PAGE = 100

/** Pipelines on PostgreSQL. */
export class SqlPipelineStore implements PipelineStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Repeats until the count was right: another process may have claimed meanwhile. */
  async claimExecution({ jobId, at, limit, claimMs }: Parameters<PipelineStore["claimExecution"]>[0]) {
    for (;;) {
      const [claims] = await this.#database.query<{ version: number }>("pipelineClaimsVersion", [])
      const values = [jobId, at, limit, claimMs, claims!.version]
      const [row] = await this.#database.query<{ id: number | null }>("pipelineClaim", values)
      if (row !== undefined) return row.id
    }
  }

  async readExecution(jobId: string): Promise<ExecutionRow | null> {
    return (await this.#database.query<ExecutionRow>("pipelineExecution", [jobId]))[0] ?? null
  }

  async listExecutions(query: Parameters<PipelineStore["listExecutions"]>[0]) {
    const { owner, hasDeadLetters, before, limit, scan } = query
    const statement = hasDeadLetters ? "pipelineExecutionsWithDeadLetters" : "pipelineExecutions"
    const rows = await this.#database.query<ScannedExecution>(statement, [owner, before, scan, limit])
    return executionPage(rows, limit)
  }

  async endExecution({ jobId, at }: Parameters<PipelineStore["endExecution"]>[0]): Promise<void> {
    await this.#database.query("pipelineEnd", [jobId, at])
  }

  async commit(commit: PipelineCommit) {
    const { execution, messages } = commit
    const texts = messages.flatMap(({ body }) => (body.includes(ARTIFACT_MARK) ? body : []))
    const hashes = texts.flatMap(artifactsInText)
    if (hashes.length > 0) await this.#database.query("pipelineHoldArtifacts", [execution, hashes])
    const [row] = await this.#database.append<Committed>("pipelineCommit", encodeCommit(commit))
    const { isHeld, isMoved, last } = row!
    if (isHeld && !isMoved) checkSentBefore(commit, last)
    return { isHeld }
  }

  async readMessages(query: Parameters<PipelineStore["readMessages"]>[0]): Promise<MessageRow[]> {
    const { execution, route, after, limit, maxBytes } = query
    return this.#messages("pipelineMessages", [execution, route, after, limit, maxBytes])
  }

  async findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]> {
    return this.#messages("pipelineFindMessages", [execution, ...keyColumns(keys)])
  }

  async readRetries(query: Parameters<PipelineStore["readRetries"]>[0]) {
    const { execution, route, dueBy, after = { dueAt: -1, seq: -1 }, limit, maxBytes } = query
    const values = [execution, route, dueBy, after.dueAt, after.seq, limit, maxBytes]
    return this.#messages<ParkedState>("pipelineRetries", values)
  }

  async listDeadLetters(query: Parameters<PipelineStore["listDeadLetters"]>[0]): Promise<DeadLetterRow[]> {
    const { execution, route, after = BEFORE_ALL_KEYS, limit } = query
    return this.#messages("pipelineDeadLetters", [execution, route, after.route, after.seq, limit])
  }

  async deadLettersLeft({ execution, most }: Parameters<PipelineStore["deadLettersLeft"]>[0]) {
    const [row] = await this.#database.query<MessageKey & { readonly error: string; readonly count: number }>(
      "pipelineDeadLettersLeft",
      [execution, most],
    )
    if (row === undefined) return { count: 0, first: null }
    const { count, ...first } = row
    return { count, first }
  }

  /** In pages: there may be millions. A page that was claimed stays claimed when the next one fails. */
  async claimDeadLetters(claim: Parameters<PipelineStore["claimDeadLetters"]>[0]): Promise<number> {
    const { execution, replayedBy, at, claimMs, bodies = [] } = claim
    const edited = [...keyColumns(bodies), records(bodies, ({ body }) => json(body))]
    const keysAfter = (after: MessageKey) =>
      this.#keys("pipelineDeadLetterKeys", [execution, after.route, after.seq, CLAIM_PAGE])
    for await (const keys of deadLetterPages(claim.keys, keysAfter)) {
      const values = [execution, ...keyColumns(keys), replayedBy, at, claimMs, ...edited]
      await this.#database.query("pipelineClaimDeadLetters", values)
    }
    return this.#count("pipelineCountReplayed", [replayedBy, execution])
  }

  async readReplayed(query: Parameters<PipelineStore["readReplayed"]>[0]): Promise<ReplayedRow[]> {
    const { replayedBy, after = { ...BEFORE_ALL_KEYS, execution: -1 }, limit } = query
    const values = [replayedBy, after.execution, after.route, after.seq, limit]
    return this.#messages("pipelineReplayed", values)
  }

  async countReplayedBefore(letter: Parameters<PipelineStore["countReplayedBefore"]>[0]): Promise<number> {
    const { execution, route, seq, replayedBy } = letter
    return this.#count("pipelineCountReplayedBefore", [replayedBy, execution, route, seq])
  }

  async findReplayed(query: Parameters<PipelineStore["findReplayed"]>[0]): Promise<MessageKey | null> {
    const { execution, route, replayedBy, before } = query
    return (await this.#keys("pipelineFindReplayed", [replayedBy, execution, route, before]))[0] ?? null
  }

  async readLineage(query: Parameters<PipelineStore["readLineage"]>[0]): Promise<LineageRow[]> {
    const { execution, keys, limit } = query
    const values = [execution, ...keyColumns(keys), limit]
    const found = await this.#database.query<AttemptRow>("pipelineLineage", values)
    return found.flatMap(lineageRows).sort(inLineageOrder).slice(0, limit)
  }

  async readGathered(query: Parameters<PipelineStore["readGathered"]>[0]): Promise<MessageKey[]> {
    const { execution, into, limit } = query
    return this.#keys("pipelineGathered", [execution, ...keyColumns(into), limit])
  }

  async readStored(execution: number, keys: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const asked = new Map(keys.map(key => [key, storedKey(key)]))
    const values = [execution, [...asked.values()]]
    const rows = await this.#database.query<{ key: string; value: string }>("pipelineStored", values)
    const found = new Map(rows.map(({ key, value }) => [key, value]))
    return new Map(
      [...asked].filter(([, key]) => found.has(key)).map(([name, key]) => [name, found.get(key)!]),
    )
  }

  /** First the rows of removed jobs: all of them are removed, so this is the cheapest part. */
  async purgeLineage({ before, limit }: Parameters<PipelineStore["purgeLineage"]>[0]): Promise<number> {
    await this.#database.query("pipelineSettle", [before, ABANDONED_MS])
    const removed = await this.#purge("pipelineRemoveOrphans", limit, left => [left, ENDED_PAGE])
    const trimmed = await this.#purge("pipelineTrim", limit - removed, left => [
      before,
      // A row of lineage removes at most one message with it.
      Math.max(1, Math.floor(left / 2)),
      ENDED_PAGE,
    ])
    return removed + trimmed
  }

  /** Repeats until nothing is left, or enough was removed. */
  async #purge(statement: Statement, limit: number, values: (left: number) => Values): Promise<number> {
    let removed = 0
    for (let isMore = limit > 0; isMore && (removed === 0 || limit - removed > 1); ) {
      const [row] = await this.#database.query<{ gone: number; isMore: boolean }>(
        statement,
        values(limit - removed),
      )
      removed += row!.gone
      isMore = row!.isMore
    }
    return removed
  }

  async #messages<More>(statement: Statement, values: Values) {
    const found = await this.#database.query<StoredPipelineMessage & More>(statement, values)
    return found.map(pipelineMessage) as (MessageRow & More)[]
  }

  async #keys(statement: Statement, values: Values): Promise<MessageKey[]> {
    return this.#database.query<MessageKey>(statement, values)
  }

  async #count(statement: Statement, values: Values): Promise<number> {
    return (await this.#database.query<{ count: number }>(statement, values))[0]!.count
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
