/**
 * Maintenance of the file, between requests: moves the WAL into the file, and returns the space of removed
 * rows. A commit does neither, except when the WAL reaches its limit (open.ts).
 */
import type { SqliteConnection } from "./database.ts"

/** Maintenance begins after this time without a request. */
const IDLE_MS = 100
/** The number of rows and commits after which the WAL is moved even if requests never pause. */
const ROWS = 20_000
const COMMITS = 2_000
/** The WAL of a database that is rarely written to is moved this often. */
const CHECKPOINT_MS = 10_000

/** The free pages that are kept for new rows, and how many are returned at a time. */
const KEPT_PAGES = 1_024
const RETURNED_PAGES = 512
/** The longest interval between two returns of space if requests never pause. */
const RETURN_MS = 1_000

export class Maintenance {
  readonly #connection: SqliteConnection
  #rows = 0
  #commits = 0
  #lastWrite = 0
  #lastCheckpoint = performance.now()
  #lastReturn = performance.now()
  /** Pages were returned: the file shrinks with the next checkpoint. */
  #hasReturned = false
  #timer: NodeJS.Timeout | null = null

  constructor(connection: SqliteConnection) {
    this.#connection = connection
  }

  /** Called after each request that was answered. */
  afterRequest(): void {
    const { rows, commits } = this.#connection.takeWritten()
    if (commits === 0) return
    this.#rows += rows
    this.#commits += commits
    this.#lastWrite = performance.now()
    if (this.#rows >= ROWS || this.#commits >= COMMITS) this.#checkpoint()
    else this.#timer ??= setTimeout(() => this.#whenIdle(), IDLE_MS)
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  #whenIdle(): void {
    this.#timer = null
    const now = performance.now()
    const isIdle = now - this.#lastWrite >= IDLE_MS
    let isMore = false
    try {
      if (isIdle || now - this.#lastReturn >= RETURN_MS) isMore = this.#returnSpace()
      if (isIdle && this.#isDue(now, isMore)) this.#checkpoint()
      if (this.#commits === 0 && !isMore) return
    } catch {
      // The disk is full, or another process reads: retried next time.
    }
    this.#timer = setTimeout(() => this.#whenIdle(), isIdle && !isMore ? 10 * IDLE_MS : IDLE_MS)
    this.#timer.unref()
  }

  #isDue(now: number, isMore: boolean): boolean {
    if (this.#hasReturned && !isMore) return true
    return this.#commits > COMMITS / 20 || now - this.#lastCheckpoint >= CHECKPOINT_MS
  }

  #checkpoint(): void {
    this.#lastCheckpoint = performance.now()
    this.#rows = 0
    this.#commits = 0
    this.#hasReturned = false
    try {
      this.#connection.database.prepare("pragma wal_checkpoint(passive)").all()
    } catch {
      // The disk is full: the WAL stays as it is, and its content is read from there.
    }
  }

  /** Returns true if there is more space to return. */
  #returnSpace(): boolean {
    this.#lastReturn = performance.now()
    const { freelist_count: free } = this.#connection.get<{ freelist_count: number }>(
      "pragma freelist_count",
    )!
    if (free <= KEPT_PAGES) return false
    this.#connection.database.exec(`pragma incremental_vacuum(${RETURNED_PAGES})`)
    this.#commits++
    this.#hasReturned = true
    return free - RETURNED_PAGES > KEPT_PAGES
  }
}
