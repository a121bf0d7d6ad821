/** Schedules in a folder or a database. */
import { pages } from "../../client/http.ts"
import { announceSchedule } from "../../engine/schedules/schedules.ts"
import { ScheduleRequests } from "../../jobs/schedules/schedules.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Umbra } from "../../umbra.ts"
import type { TargetSchedules } from "./open.ts"

/** `asEngine`: through an engine of another process, or with one of this process. Only `run` and `backfill` need one. */
export function storeSchedules(
  owner: string,
  journal: () => Promise<Journal>,
  asEngine: <T>(use: (umbra: Umbra) => Promise<T>) => Promise<T>,
): TargetSchedules {
  const requests = async () => {
    const store = await journal()
    return new ScheduleRequests({
      journal: store,
      firing: { changed: partition => announceSchedule(store, partition) },
      submit: (workflow, input, options) => asEngine(umbra => umbra.accept(workflow, input, options)),
      startBackfill: (...given) => asEngine(umbra => umbra.bulk.startBackfill(...given)),
      now: Date.now,
    })
  }
  return {
    put: async (name, document) => (await (await requests()).put(name, document, { owner })).schedule,
    get: async name => (await requests()).get(name, { owner }),
    async *list({ limit, fires } = {}) {
      const schedules = await requests()
      const ask = (after?: string) => schedules.list({ owner, after, limit, fires })
      for await (const page of pages(ask)) yield* page.schedules
    },
    async *fires(name, { limit } = {}) {
      const schedules = await requests()
      const ask = (before?: string) => schedules.fires(name, { owner, before, limit })
      for await (const { fires } of pages(ask)) yield* fires
    },
    async *ticks(name, { from, to, limit }) {
      const schedules = await requests()
      const ask = (after?: string) => schedules.ticks(name, { owner, from, to, after, limit })
      for await (const { ticks } of pages(ask)) yield* ticks
    },
    preview: async document => (await requests()).preview(document),
    pause: async name => (await requests()).pause(name, { owner }),
    resume: async name => (await requests()).resume(name, { owner }),
    run: async name => (await requests()).run(name, { owner }),
    previewBackfill: async (name, range) => (await requests()).previewBackfill(name, range, { owner }),
    backfill: async (name, request) => (await requests()).backfill(name, request, { owner }),
    delete: async name => (await requests()).delete(name, { owner }),
  }
}
