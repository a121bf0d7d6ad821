/** Bulk operations on a folder or a database. */

import { pages } from "../../client/http.ts"
import type { BulkRequest } from "../../client/index.ts"
import { BulkQueries } from "../../jobs/bulk/bulk.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Umbra } from "../../umbra.ts"
import type { TargetBulk } from "./open.ts"

/**
 * `asEngine`: through an engine of another process, or with one of this process, which then runs the operation. `withHandlers`:
 * the same, with the declarations of the handlers of the command, which say what must be confirmed before a fork.
 */
export function storeBulk(
  owner: string,
  journal: () => Promise<Journal>,
  {
    asEngine,
    withHandlers,
  }: Readonly<Record<"asEngine" | "withHandlers", <T>(use: (umbra: Umbra) => Promise<T>) => Promise<T>>>,
): TargetBulk {
  const queries = async () => {
    const store = await journal()
    return new BulkQueries({
      ...{ journal: store, live: () => undefined },
      list: filter => store.listJobs(filter),
    })
  }
  return {
    count: async (request: BulkRequest) =>
      request.verb === "fork"
        ? withHandlers(umbra => umbra.bulk.count(request, { owner }))
        : (await queries()).count(request, { owner }),
    start: request =>
      (request.verb === "fork" ? withHandlers : asEngine)(umbra => umbra.bulk.start(request, { owner })),
    get: async id => (await queries()).get(id),
    async *list({ limit } = {}) {
      const bulk = await queries()
      const ask = (after?: string) => bulk.list({ owner, after, limit })
      for await (const { operations } of pages(ask)) yield* operations
    },
    async *refused(id, { limit } = {}) {
      const bulk = await queries()
      const ask = (after?: string) => bulk.refusals(id, { after, limit })
      for await (const { refused } of pages(ask)) yield* refused
    },
    abort: id => asEngine(umbra => umbra.bulk.abort(id)),
  }
}
