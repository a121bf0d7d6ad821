/**
 * Any jobs, any filter, other commands at the same time, a process that dies at any append: what matched at the start and was
 * not changed by others is affected exactly once, nothing else is, and the report of the operation is true.
 */
import { expect, it } from "vitest"
import { type JobStatus, jobHasEnded } from "../../src/core/states.ts"
import type { BulkRequest, BulkVerb } from "../../src/jobs/bulk/operation.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import fc from "../support/property.ts"
import { type Crash, dyingJournal } from "./mortal-journal.ts"
import { countFactsOf, ended, forksOf, handlers, type Kind, kinds, refusals, submit } from "./stage.ts"

const job = fc.record({
  kind: fc.constantFrom<Kind[]>("fails", "fails", "completes", "waits"),
  owner: fc.constantFrom("ada", "ada", "ada", "bob"),
  team: fc.constantFrom("x", "y"),
})

const filters = fc.record(
  {
    workflow: fc.constantFrom<Kind[]>("fails", "waits"),
    labels: fc.constantFrom({ team: "x" }, { team: "y" }),
    statuses: fc.constantFrom<JobStatus[][]>(["FAILED"], ["PROCESSING"], ["FAILED", "COMPLETED"]),
  },
  { requiredKeys: [] },
)

const cases = fc.record({
  jobs: fc.array(job, { minLength: 6, maxLength: 40, size: "max" }),
  verb: fc.constantFrom<BulkVerb[]>("cancel", "retry", "fork", "delete"),
  filter: filters.filter(filter => Object.keys(filter).length > 0),
  crashes: fc.array(fc.record({ at: fc.integer({ min: 1, max: 12 }), isApplied: fc.boolean() }), {
    maxLength: 2,
  }),
  /** Jobs that another caller acts on while the operation runs. */
  others: fc.array(fc.nat(39), { maxLength: 3 }),
})

const usual: { readonly [verb in BulkVerb]: (status: JobStatus) => boolean } = {
  cancel: status => !jobHasEnded(status),
  retry: status => ["FAILED", "CANCELLED", "EXPIRED"].includes(status),
  fork: status => ["FAILED", "CANCELLED", "EXPIRED"].includes(status),
  delete: jobHasEnded,
}

/** A fork may be made of a job in any state. */
const isPossible = (verb: BulkVerb, status: JobStatus) => verb === "fork" || usual[verb](status)

/** How often the operation has affected the job. */
async function effects(umbra: Umbra, verb: BulkVerb, jobId: string, operation: string): Promise<number> {
  if (verb !== "fork") return countFactsOf(umbra, jobId, operation)
  expect(await countFactsOf(umbra, jobId, operation), "the origin stays as it is").toBe(0)
  return (await forksOf(umbra, jobId, operation)).length
}

it("affects each target exactly once, and nothing else, whatever crashes", { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(cases, async ({ jobs, verb, filter, crashes, others }) => {
      const store = createMemoryStore({ partitions: 4 })
      const first = await openUmbra(openMemory(store), { handlers })
      const ids: string[] = []
      for (const { kind, owner, team } of jobs)
        ids.push(await submit(first, kind, { owner, labels: { team } }))
      const before: JobStatus[] = []
      for (const id of ids) before.push((await first.job(id)).status)
      const isAsked = (i: number) => {
        const { kind, owner, team } = jobs[i]!
        if (owner !== "ada" || (filter.workflow ?? kind) !== kind) return false
        if ((filter.labels?.team ?? team) !== team) return false
        return filter.statuses?.includes(before[i]!) ?? usual[verb](before[i]!)
      }
      await first.close()

      const fork = verb === "fork" ? { fork: { confirm: { unknown: true } } } : {}
      const living = await run(store, { verb, filter, rate: 10_000, ...fork }, crashes, async umbra => {
        const later: string[] = []
        for (const kind of Object.keys(kinds) as Kind[])
          later.push((await umbra.submit(kinds[kind], {}, { owner: "ada", labels: { team: "x" } })).id)
        const acted = [...new Set(others)].filter(i => i < ids.length).map(i => ids[i]!)
        for (const id of acted) await act(umbra, id)
        return { later, acted }
      })
      const { umbra, operation, later, acted } = living
      const view = await ended(umbra, operation)
      expect(view.status).toBe("COMPLETED")
      const refused = await refusals(umbra, operation)
      const refusedIds = refused.map(({ job_id }) => job_id)
      const done: string[] = []
      for (const [i, id] of ids.entries()) {
        const facts = await effects(umbra, verb, id, operation)
        if (facts > 0) done.push(id)
        expect(facts, `${id}: at most once`).toBeLessThanOrEqual(1)
        const isOther = acted.includes(id)
        const hasEffect = isAsked(i) && isPossible(verb, before[i]!)
        if (!isOther) expect(facts, `${id} ${before[i]}`).toBe(hasEffect ? 1 : 0)
        if (!isAsked(i)) expect(facts, `${id} was not asked for`).toBe(0)
        // What was asked for and is not possible is listed, with its reason.
        if (!isOther && isAsked(i) && !hasEffect) expect(refusedIds).toContain(id)
        if (facts > 0) expect(refusedIds, "done is not refused").not.toContain(id)
        if (jobs[i]!.owner !== "ada") expect(refusedIds).not.toContain(id)
      }
      for (const id of later) {
        expect(await effects(umbra, verb, id, operation), "began later").toBe(0)
        expect(refusedIds).not.toContain(id)
      }
      if (verb === "fork") {
        const { jobs: all } = await umbra.queries.list({ limit: 1000, deleted: true })
        const forks = all.filter(({ forkedFrom }) => forkedFrom !== null)
        expect(forks.map(({ forkedFrom }) => forkedFrom).sort(), "no fork is forked").toEqual(done.sort())
      }
      expect(new Set(refusedIds).size, "each is listed once").toBe(refusedIds.length)
      expect(view).toMatchObject({
        done: done.length,
        refused: refused.length,
        processed: done.length + refused.length,
      })
      await umbra.close()
    }),
    { numRuns: 25 },
  )
})

/** Another caller: cancels what runs, retries or deletes what has ended. The operation may have been faster. */
async function act(umbra: Umbra, id: string): Promise<void> {
  const { status } = await umbra.job(id)
  const acting =
    status === "FAILED" ? umbra.retry(id) : jobHasEnded(status) ? umbra.delete(id) : umbra.cancel(id)
  await acting.catch(error => expect(error.code).toMatch(/^E30[237]$/))
}

/** Runs the operation in processes that die as told; the last one lives. `meanwhile` runs in the first that gets there. */
async function run<T>(
  store: MemoryStore,
  request: BulkRequest,
  crashes: readonly Crash[],
  meanwhile: (umbra: Umbra) => Promise<T>,
): Promise<T & { readonly umbra: Umbra; readonly operation: string }> {
  let operation = ""
  let result: T | undefined
  for (const crash of [...crashes, null]) {
    const mortal = dyingJournal(store, crash)
    const umbra = await openUmbra(mortal.journal, {
      handlers,
      engine: { beatSeconds: 0.02, leaseSeconds: 0.3 },
    })
    const alive = (async () => {
      if (operation === "") {
        const key = { owner: "ada", idempotencyKey: "the operation" }
        operation = (await umbra.bulk.start(request, key)).bulk_id
      }
      result ??= await meanwhile(umbra)
      await umbra.wait(operation)
      return true
    })()
    // A call of a process that has died is never answered.
    if (await Promise.race([alive, mortal.death.then(() => false)])) return { ...result!, umbra, operation }
  }
  throw new Error("the last process does not die")
}
