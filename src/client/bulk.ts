/** Bulk operations: commands to all jobs that match a filter. */
import { type Http, headerText, newKey } from "./http.ts"
import { filterFields, forkBody } from "./requests.ts"
import type {
  BulkCount,
  BulkOperation,
  BulkRefusal,
  BulkRequest,
  BulkSummary,
  PageOptions,
  Signalled,
} from "./types.ts"

export class RemoteBulk {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Counts the jobs that match now, in bounded work; nothing is stored. */
  count(request: BulkRequest, { signal }: Signalled = {}): Promise<BulkCount> {
    const body = { ...bulkBody(request), dry_run: true }
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
      body: bulkBody(request),
      signal,
    })
  }

  get(id: string, options: Signalled = {}): Promise<BulkOperation> {
    return this.#http.ask(bulkPath(id), options)
  }

  /** Newest first; pages are requested as needed. */
  async *list({ limit, signal }: PageOptions = {}): AsyncGenerator<BulkSummary, void, undefined> {
    yield* this.#http.list<BulkSummary>("/bulk", "operations", { query: { limit }, signal })
  }

  /** What it has refused so far; pages are requested as needed. */
  async *refused(
    id: string,
    { limit, signal }: PageOptions = {},
  ): AsyncGenerator<BulkRefusal, void, undefined> {
    yield* this.#http.list<BulkRefusal>(`${bulkPath(id)}/refused`, "refused", { query: { limit }, signal })
  }

  /** Its commands in flight end; then it is CANCELLED. */
  abort(id: string): Promise<BulkOperation> {
    return this.#http.ask(`${bulkPath(id)}/abort`, { method: "POST" })
  }
}

function bulkPath(id: string): string {
  return `/bulk/${encodeURIComponent(id)}`
}

function bulkBody({ filter, fork, ...request }: BulkRequest): object {
  const { statuses: status, labels } = filter
  return { ...request, filter: { status, labels, ...filterFields(filter) }, fork: fork && forkBody(fork) }
}
