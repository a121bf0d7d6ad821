import { ABANDONED_MS, checkSentBefore, inLineageOrder, storedKey } from "../pipeline-rules.ts"
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
import type { Database, Row, Statement } from "./database.ts"
import { textArrayLiteral } from "./encode.ts"
import { type AttemptRow, encodeCommit, keyColumns, lineageRows } from "./encode-pipeline.ts"
import * as rows from "./rows.ts"

const BEFORE_ALL: MessageKey = { route: -1, seq: -1 }
/** The number of dead letters that one statement marks. */
const CLAIM_PAGE = 10_000
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
      const [version] = await this.#database.query("pipelineClaimsVersion", [])
      const parameters = [jobId, `${at}`, `${limit}`, `${claimMs}`, rows.text(version, 0)]
      const [row] = await this.#database.query("pipelineClaim", parameters)
      if (row !== undefined) return rows.maybeNumber(row, 0)
    }
  }

  async readExecution(jobId: string): Promise<ExecutionRow | null> {
    const [row] = await this.#database.query("pipelineExecution", [jobId])
    if (row === undefined) return null
    return {
      execution: rows.number(row, 0),
      jobId: rows.text(row, 1),
      commit: rows.number(row, 2),
      progress: row[3] ?? null,
      endedAt: rows.maybeNumber(row, 4),
    }
  }

  async endExecution({ jobId, at }: Parameters<PipelineStore["endExecution"]>[0]): Promise<void> {
    await this.#database.query("pipelineEnd", [jobId, `${at}`])
  }

  async commit(commit: PipelineCommit) {
    const [row] = await this.#database.append("pipelineCommit", encodeCommit(commit))
    const [isHeld, isMoved] = [row?.[0] === "t", row?.[1] === "t"]
    if (!isHeld || isMoved) return { isHeld }
    checkSentBefore(commit, rows.maybeNumber(row!, 2))
    return { isHeld }
  }

  async readMessages(query: Parameters<PipelineStore["readMessages"]>[0]): Promise<MessageRow[]> {
    const { execution, route, after, limit, maxBytes } = query
    const parameters = [execution, route, after, limit, maxBytes].map(String)
    return (await this.#database.query("pipelineMessages", parameters)).map(messageRow)
  }

  async findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]> {
    const found = await this.#database.query("pipelineFindMessages", [`${execution}`, ...keyColumns(keys)])
    return found.map(messageRow)
  }

  async readRetries(query: Parameters<PipelineStore["readRetries"]>[0]) {
    const { execution, route, dueBy, after = { dueAt: -1, seq: -1 }, limit, maxBytes } = query
    const parameters = [execution, route, dueBy, after.dueAt, after.seq, limit, maxBytes].map(String)
    const found = await this.#database.query("pipelineRetries", parameters)
    return found.map((row): MessageRow & ParkedState => ({
      ...messageRow(row),
      attempts: rows.number(row, 8),
      dueAt: rows.number(row, 9),
    }))
  }

  async listDeadLetters(query: Parameters<PipelineStore["listDeadLetters"]>[0]): Promise<DeadLetterRow[]> {
    const { execution, route, after = BEFORE_ALL, limit } = query
    const page = [after.route, after.seq, limit].map(String)
    const parameters = [`${execution}`, route === undefined ? null : `${route}`, ...page]
    return (await this.#database.query("pipelineDeadLetters", parameters)).map(row => ({
      ...messageRow(row),
      attempts: rows.number(row, 8),
      failedAt: rows.number(row, 9),
      error: rows.text(row, 10),
      replayedBy: row[11] ?? null,
    }))
  }

  async deadLettersLeft({ execution, most }: Parameters<PipelineStore["deadLettersLeft"]>[0]) {
    const [row] = await this.#database.query("pipelineDeadLettersLeft", [`${execution}`, `${most}`])
    if (row === undefined) return { count: 0, first: null }
    return { count: rows.number(row, 0), first: { ...keyRow(row.slice(1)), error: rows.text(row, 3) } }
  }

  /** In pages: there may be millions. A page that was claimed stays claimed when the next one fails. */
  async claimDeadLetters(claim: Parameters<PipelineStore["claimDeadLetters"]>[0]): Promise<number> {
    const { execution, replayedBy, at, claimMs } = claim
    for await (const keys of this.#pages(execution, claim.keys)) {
      const parameters = [`${execution}`, ...keyColumns(keys), replayedBy, `${at}`, `${claimMs}`]
      await this.#database.query("pipelineClaimDeadLetters", parameters)
    }
    return this.#count("pipelineCountReplayed", [replayedBy, `${execution}`])
  }

  async *#pages(
    execution: number,
    keys: readonly MessageKey[] | null,
  ): AsyncGenerator<readonly MessageKey[]> {
    if (keys !== null) {
      for (let index = 0; index < keys.length; index += CLAIM_PAGE)
        yield keys.slice(index, index + CLAIM_PAGE)
      return
    }
    let after: MessageKey | undefined = BEFORE_ALL
    while (after !== undefined) {
      const parameters: string[] = [execution, after.route, after.seq, CLAIM_PAGE].map(String)
      const page: MessageKey[] = (await this.#database.query("pipelineDeadLetterKeys", parameters)).map(
        keyRow,
      )
      yield page
      after = page.at(-1)
    }
  }

  async readReplayed(query: Parameters<PipelineStore["readReplayed"]>[0]): Promise<ReplayedRow[]> {
    const { replayedBy, after = { ...BEFORE_ALL, execution: -1 }, limit } = query
    const page = [after.execution, after.route, after.seq, limit].map(String)
    const found = await this.#database.query("pipelineReplayed", [replayedBy, ...page])
    return found.map(row => ({ ...messageRow(row), execution: rows.number(row, 8) }))
  }

  async countReplayedBefore({
    execution,
    route,
    seq,
    replayedBy,
  }: Parameters<PipelineStore["countReplayedBefore"]>[0]): Promise<number> {
    return this.#count("pipelineCountReplayedBefore", [replayedBy, `${execution}`, `${route}`, `${seq}`])
  }

  async findReplayed(query: Parameters<PipelineStore["findReplayed"]>[0]): Promise<MessageKey | null> {
    const { execution, route, replayedBy, before } = query
    const parameters = [replayedBy, `${execution}`, `${route}`, `${before}`]
    const [row] = await this.#database.query("pipelineFindReplayed", parameters)
    return row === undefined ? null : keyRow(row)
  }

  async readLineage(query: Parameters<PipelineStore["readLineage"]>[0]): Promise<LineageRow[]> {
    const { execution, keys, limit } = query
    const parameters = [`${execution}`, ...keyColumns(keys), `${limit}`]
    const found = await this.#database.query("pipelineLineage", parameters)
    const all = found.flatMap(row => lineageRows(attemptRow(row)))
    return all.sort(inLineageOrder).slice(0, limit)
  }

  async readGathered(query: Parameters<PipelineStore["readGathered"]>[0]): Promise<MessageKey[]> {
    const { execution, into, limit } = query
    const parameters = [`${execution}`, ...keyColumns(into), `${limit}`]
    return (await this.#database.query("pipelineGathered", parameters)).map(keyRow)
  }

  async readStored(execution: number, keys: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const asked = new Map(keys.map(key => [key, storedKey(key)]))
    const parameters = [`${execution}`, textArrayLiteral([...asked.values()])]
    const rowsFound = await this.#database.query("pipelineStored", parameters)
    const found = new Map(rowsFound.map(row => [rows.text(row, 0), rows.text(row, 1)]))
    return new Map(
      [...asked].filter(([, key]) => found.has(key)).map(([name, key]) => [name, found.get(key)!]),
    )
  }

  /** First the rows of removed jobs: all of them are removed, so this is the cheapest part. */
  async purgeLineage({ before, limit }: Parameters<PipelineStore["purgeLineage"]>[0]): Promise<number> {
    await this.#database.query("pipelineSettle", [`${before}`, `${ABANDONED_MS}`])
    const removed = await this.#purge(limit, left =>
      this.#database.query("pipelineRemoveOrphans", [`${left}`, `${ENDED_PAGE}`]),
    )
    const trimmed = await this.#purge(limit - removed, left =>
      // A row of lineage removes at most one message with it.
      this.#database.query("pipelineTrim", [
        `${before}`,
        `${Math.max(1, Math.floor(left / 2))}`,
        `${ENDED_PAGE}`,
      ]),
    )
    return removed + trimmed
  }

  /** Repeats until nothing is left, or enough was removed. */
  async #purge(limit: number, remove: (left: number) => Promise<Row[]>): Promise<number> {
    let removed = 0
    for (let isMore = limit > 0; isMore && (removed === 0 || limit - removed > 1); ) {
      const [row] = await remove(limit - removed)
      removed += rows.number(row, 0)
      isMore = row?.[1] === "t"
    }
    return removed
  }

  async #count(statement: Statement, parameters: readonly string[]): Promise<number> {
    return rows.number((await this.#database.query(statement, parameters))[0], 0)
  }
}

function keyRow(row: Row): MessageKey {
  return { route: rows.number(row, 0), seq: rows.number(row, 1) }
}

function attemptRow(row: Row): AttemptRow {
  const [attempt, into] = [rows.number(row, 2), rows.maybeNumber(row, 3)]
  return { ...keyRow(row), attempt, into, steps: rows.text(row, 4) }
}

function messageRow(row: Row): MessageRow {
  const parentRoute = rows.maybeNumber(row, 2)
  return {
    ...keyRow(row),
    parent: parentRoute === null ? null : { route: parentRoute, seq: rows.number(row, 3) },
    root: rows.number(row, 4),
    hops: rows.number(row, 5),
    at: rows.number(row, 6),
    body: rows.text(row, 7),
  }
}
