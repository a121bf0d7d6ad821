/** Schedules in a folder or a database. */
import { entries } from "../../client/http.ts"
import { announceSchedule } from "../../engine/schedules/schedules.ts"
import { ScheduleRequests } from "../../jobs/schedules/schedules.ts"
import type { TargetSchedules } from "./open.ts"
import type { Store } from "./store.ts"

/** Only `run` and `backfill` need an engine. */
export function storeSchedules(owner: string, store: Store): TargetSchedules {
  const requests = async () => {
    const journal = await store.journal()
    return new ScheduleRequests({
      journal,
      firing: { changed: partition => announceSchedule(journal, partition) },
      submit: (workflow, input, options) => store.asEngine(umbra => umbra.accept(workflow, input, options)),
      startBackfill: (...given) => store.asEngine(umbra => umbra.bulk.startBackfill(...given)),
      now: Date.now,
    })
  }
  return {
    put: async (name, document) => (await (await requests()).put(name, document, { owner })).schedule,
    get: async name => (await requests()).get(name, { owner }),
    list: ({ limit, fires } = {}) =>
      entries(async (after?: string) => (await requests()).list({ owner, after, limit, fires }), "schedules"),
    fires: (name, { limit } = {}) =>
      entries(async (before?: string) => (await requests()).fires(name, { owner, before, limit }), "fires"),
    ticks: (name, query) =>
      entries(async (after?: string) => (await requests()).ticks(name, { owner, after, ...query }), "ticks"),
    preview: async document => (await requests()).preview(document),
    pause: async name => (await requests()).pause(name, { owner }),
    resume: async name => (await requests()).resume(name, { owner }),
    run: async name => (await requests()).run(name, { owner }),
    previewBackfill: async (name, range) => (await requests()).previewBackfill(name, range, { owner }),
    backfill: async (name, request) => (await requests()).backfill(name, request, { owner }),
    delete: async name => (await requests()).delete(name, { owner }),
  }
}
