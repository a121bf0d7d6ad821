/** Bulk operations: commands to all jobs that match a filter. */
import { type Http, headerText, newKey, pages } from "./http.ts"
import { forkBody } from "./requests.ts"
import type {
  BulkCount,
  BulkFilter,
  BulkOperation,
  BulkRefusal,
  BulkRefusals,
  BulkRequest,
  BulkSummary,
  PageOptions,
  Signalled,
} from "./types.ts"

export class Bulk {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Counts the jobs that match now, in bounded work; nothing is stored. */
  count(request: BulkRequest, { signal }: Signalled = {}): Promise<BulkCount> {
    const body = { ...bodyOf(request), dry_run: true }
    return this.#http.ask("/bulk", { method: "POST", safe: true, body, signal })
  }

  /** Resolves when the operation is durable. It is sent again if its answer was lost, and still starts once. */
  start(
    request: BulkRequest,
    { idempotencyKey = newKey(), signal }: Signalled & { readonly idempotencyKey?: string } = {},
  ): Promise<BulkOperation> {
    return this.#http.ask("/bulk", {
      method: "POST",
      safe: true,
      headers: { "idempotency-key": headerText(idempotencyKey) },
      body: bodyOf(request),
      signal,
    })
  }

  get(id: string, options: Signalled = {}): Promise<BulkOperation> {
    return this.#http.ask(pathOf(id), options)
  }

  /** Newest first; pages are requested as needed. */
  async *list({ limit, signal }: PageOptions = {}): AsyncGenerator<BulkSummary, void, undefined> {
    type Page = { operations: readonly BulkSummary[]; next: string | null }
    const ask = (after?: string) => this.#http.ask<Page>("/bulk", { query: { after, limit }, signal })
    for await (const { operations } of pages(ask)) yield* operations
  }

  /** What it has refused so far; pages are requested as needed. */
  async *refused(
    id: string,
    { limit, signal }: PageOptions = {},
  ): AsyncGenerator<BulkRefusal, void, undefined> {
    const ask = (after?: string) =>
      this.#http.ask<BulkRefusals>(`${pathOf(id)}/refused`, { query: { after, limit }, signal })
    for await (const { refused } of pages(ask)) yield* refused
  }

  /** Its commands in flight end; then it is CANCELLED. */
  abort(id: string): Promise<BulkOperation> {
    return this.#http.ask(`${pathOf(id)}/abort`, { method: "POST" })
  }
}

function pathOf(id: string): string {
  return `/bulk/${encodeURIComponent(id)}`
}

function bodyOf({ filter, fork, ...request }: BulkRequest): object {
  return { ...request, filter: filterOf(filter), fork: fork === undefined ? undefined : forkBody(fork) }
}

/** With the names of the API. */
function filterOf(filter: BulkFilter): object {
  const { statuses, workflow, version, labels, parentId, minDurationMs, createdFrom, createdBefore } = filter
  const time = (at: number | undefined) => (at === undefined ? undefined : new Date(at).toISOString())
  return {
    ...{ status: statuses, workflow, version, labels },
    parent: parentId === null ? "none" : parentId,
    forked_from: filter.forkedFrom,
    error_code: filter.errorCode,
    fingerprint: filter.fingerprint,
    error_text: filter.errorText,
    min_duration: minDurationMs === undefined ? undefined : minDurationMs / 1000,
    created_from: time(createdFrom),
    created_before: time(createdBefore),
  }
}
