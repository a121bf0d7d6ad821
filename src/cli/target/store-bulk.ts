/** Bulk operations on a folder or a database. */

import { entries } from "../../client/http.ts"
import { BulkQueries } from "../../jobs/bulk/bulk.ts"
import type { TargetBulk } from "./open.ts"
import type { Store } from "./store.ts"

/** The process whose engine starts an operation runs it. The handlers of the command say what must be confirmed before a fork. */
export function storeBulk(owner: string, store: Store): TargetBulk {
  const queries = async () => {
    const journal = await store.journal()
    return new BulkQueries({ journal, live: () => undefined, list: filter => journal.listJobs(filter) })
  }
  return {
    count: async request =>
      request.verb === "fork"
        ? store.withHandlers(umbra => umbra.bulk.count(request, { owner }))
        : (await queries()).count(request, { owner }),
    start: request =>
      request.verb === "fork"
        ? store.withHandlers(umbra => umbra.bulk.start(request, { owner }))
        : store.asEngine(umbra => umbra.bulk.start(request, { owner })),
    get: async id => (await queries()).get(id),
    list: ({ limit } = {}) =>
      entries(async (after?: string) => (await queries()).list({ owner, after, limit }), "operations"),
    refused: (id, { limit } = {}) =>
      entries(async (after?: string) => (await queries()).refusals(id, { after, limit }), "refused"),
    abort: id => store.asEngine(umbra => umbra.bulk.abort(id)),
  }
}
