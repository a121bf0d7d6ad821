import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { idAbove } from "../../src/journal/marks.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { flow, until } from "../engine/stage.ts"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { countFactsOf, ended, handlers, refusals, submit } from "./stage.ts"

const fast = 10_000

/** The same on both stores: an operation is a job like others. */
describe.each(["sqlite", "postgres"])("bulk operations on %s", store => {
  let umbra: Umbra
  let database: FreshDatabase | null = null
  let folder = ""
  let owners = 0

  beforeAll(async () => {
    if (store === "postgres") database = await freshDatabase()
    else folder = await mkdtemp(join(tmpdir(), "umbra-bulk-"))
    umbra = await openUmbra(database?.url ?? join(folder, "umbra"), { handlers })
  })

  afterAll(async () => {
    await umbra.close()
    await database?.drop()
    if (folder !== "") await rm(folder, { recursive: true, force: true })
  })

  /** Each test has an owner of its own. */
  const newOwner = () => `owner-${++owners}`

  it("retries what failed, and nothing that is fine", async () => {
    const owner = newOwner()
    const failed = [await submit(umbra, "fails", { owner }), await submit(umbra, "fails", { owner })]
    const fine = await submit(umbra, "completes", { owner })
    const request = { verb: "retry", filter: { createdFrom: 0 }, rate: fast } as const
    const counted = await umbra.bulk.count(request, { owner })
    expect(counted).toMatchObject({ count: 2, complete: true, by_status: { FAILED: 2 } })
    const { bulk_id } = await umbra.bulk.start(request, { owner })
    const view = await ended(umbra, bulk_id)
    expect(view).toMatchObject({ status: "COMPLETED", processed: 2, done: 2, refused: 0, owner })
    expect(view.matched).toEqual({ count: 2, complete: true })
    for (const id of failed) {
      expect(await countFactsOf(umbra, id, bulk_id)).toBe(1)
      expect(await umbra.wait(id)).toMatchObject({ status: "FAILED" })
    }
    expect(await countFactsOf(umbra, fine, bulk_id)).toBe(0)
  })

  it("is paused and resumed: each target is affected once", async () => {
    const owner = newOwner()
    const waiting = await Promise.all(Array.from({ length: 12 }, () => submit(umbra, "waits", { owner })))
    const request = { verb: "cancel", filter: { workflow: "waits" }, rate: 10 } as const
    const { bulk_id } = await umbra.bulk.start(request, { owner })
    const cancelled = async () => (await umbra.jobs({ owner, statuses: ["CANCELLED"] })).length
    await until("it has begun", async () => (await cancelled()) > 0)
    await umbra.pause(bulk_id)
    expect((await umbra.why(bulk_id)).reasons).toMatchObject([{ kind: "paused" }])
    await umbra.resume(bulk_id)
    expect(await ended(umbra, bulk_id)).toMatchObject({ status: "COMPLETED", processed: 12, done: 12 })
    for (const id of waiting) expect(await countFactsOf(umbra, id, bulk_id)).toBe(1)
  })

  it("cancels with a reason, deletes, and hides what it deleted", async () => {
    const owner = newOwner()
    const waiting = [await submit(umbra, "waits", { owner }), await submit(umbra, "waits", { owner })]
    const cancelled = await umbra.bulk.start(
      { verb: "cancel", filter: { workflow: "waits" }, reason: "not needed", rate: fast },
      { owner },
    )
    expect(await ended(umbra, cancelled.bulk_id)).toMatchObject({ done: 2, refused: 0, reason: "not needed" })
    for (const id of waiting)
      expect(await umbra.job(id)).toMatchObject({ status: "CANCELLED", reason: "not needed" })
    const deleted = await umbra.bulk.start(
      { verb: "delete", filter: { workflow: "waits" }, rate: fast },
      { owner },
    )
    expect(await ended(umbra, deleted.bulk_id)).toMatchObject({ done: 2, refused: 0 })
    expect(await umbra.jobs({ owner, workflow: "waits" })).toEqual([])
    const { operations } = await umbra.bulk.list({ owner })
    expect(operations.map(({ bulk_id, verb, status }) => [bulk_id, verb, status])).toEqual([
      [deleted.bulk_id, "delete", "COMPLETED"],
      [cancelled.bulk_id, "cancel", "COMPLETED"],
    ])
  })

  it("lists what it could not do, with the reason", async () => {
    const owner = newOwner()
    const fine: string[] = []
    for (let i = 0; i < 5; i++) fine.push(await submit(umbra, "completes", { owner }))
    const failed = await submit(umbra, "fails", { owner })
    const { bulk_id } = await umbra.bulk.start(
      { verb: "retry", filter: { statuses: ["COMPLETED", "FAILED"] }, rate: fast },
      { owner },
    )
    expect(await ended(umbra, bulk_id)).toMatchObject({ processed: 6, done: 1, refused: 5 })
    const refused = await refusals(umbra, bulk_id, 2)
    expect(refused.map(({ job_id }) => job_id).sort()).toEqual(fine.sort())
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(["E307"]))
    expect(refused[0]!.message).toContain(refused[0]!.job_id)
    expect(await countFactsOf(umbra, failed, bulk_id)).toBe(1)
  })

  it("leaves other owners' jobs and other operations alone", async () => {
    const [owner, other] = [newOwner(), newOwner()]
    const theirs = await submit(umbra, "waits", { owner: other })
    const mine = await submit(umbra, "waits", { owner })
    const slow = await umbra.bulk.start({ verb: "cancel", filter: { createdFrom: 0 }, rate: 0.01 }, { owner })
    const all = await umbra.bulk.start({ verb: "cancel", filter: { createdFrom: 0 }, rate: fast }, { owner })
    expect(await ended(umbra, all.bulk_id)).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.job(mine)).status).toBe("CANCELLED")
    expect((await umbra.job(theirs)).status).toBe("PROCESSING")
    expect(await umbra.bulk.abort(slow.bulk_id).catch((error: UmbraError) => error.code)).toBeDefined()
    await umbra.wait(slow.bulk_id)
    await umbra.cancel(theirs)
  })

  it("gives the same operation for the same key, and refuses another one", async () => {
    const owner = newOwner()
    await submit(umbra, "completes", { owner })
    const request = { verb: "delete", filter: { workflow: "completes" }, rate: fast } as const
    const first = await umbra.bulk.start(request, { owner, idempotencyKey: "once" })
    await ended(umbra, first.bulk_id)
    const again = await umbra.bulk.start(request, { owner, idempotencyKey: "once" })
    expect([first.is_new, again.is_new, again.bulk_id]).toEqual([true, false, first.bulk_id])
    const other = umbra.bulk.start({ ...request, verb: "retry" }, { owner, idempotencyKey: "once" })
    await expect(other).rejects.toMatchObject({ code: "E306" })
  })

  it("reaches children through their parents, or by their parent's id", async () => {
    const owner = newOwner()
    await submit(umbra, "fails", { owner })
    const parent = await umbra.submit(
      flow(
        [{ id: "child", handler: "workflow", config: { workflow: "fails" }, retry: { max_attempts: 1 } }],
        {
          name: "parent",
        },
      ),
      {},
      { owner },
    )
    await parent.wait()
    const count = (filter: object) => umbra.bulk.count({ verb: "delete", filter }, { owner })
    expect(await count({ statuses: ["FAILED"] })).toMatchObject({ count: 2 })
    expect(await count({ parentId: parent.id })).toMatchObject({ count: 1 })
    const { bulk_id } = await umbra.bulk.start(
      { verb: "delete", filter: { createdFrom: 0 }, rate: fast },
      { owner },
    )
    expect(await ended(umbra, bulk_id)).toMatchObject({ done: 2, refused: 0 })
    const left = await umbra.jobs({ owner })
    expect(left.map(({ job_id }) => job_id)).toEqual([bulk_id])
  })

  it("has nothing to do for an owner without jobs", async () => {
    const owner = newOwner()
    const { bulk_id } = await umbra.bulk.start({ verb: "delete", filter: { createdFrom: 0 } }, { owner })
    expect(await ended(umbra, bulk_id)).toMatchObject({ status: "COMPLETED", processed: 0 })
  })

  it("stops when it is paused, says so, and continues when it is resumed", async () => {
    const owner = newOwner()
    const waiting: string[] = []
    for (let i = 0; i < 12; i++) waiting.push(await submit(umbra, "waits", { owner }))
    const request = { verb: "cancel", filter: { workflow: "waits" }, rate: 20 } as const
    const { bulk_id } = await umbra.bulk.start(request, { owner })
    await expect.poll(() => umbra.bulk.get(bulk_id).then(({ done }) => done)).toBeGreaterThan(0)
    await umbra.pause(bulk_id)
    const why = await umbra.why(bulk_id)
    expect(why.reasons.map(({ kind }) => kind)).toEqual(["paused"])
    await umbra.resume(bulk_id)
    expect(await ended(umbra, bulk_id)).toMatchObject({ status: "COMPLETED", processed: 12, done: 12 })
    for (const id of waiting) expect(await countFactsOf(umbra, id, bulk_id)).toBe(1)
  })

  it("cannot be forked", async () => {
    const owner = newOwner()
    const { bulk_id } = await umbra.bulk.start({ verb: "delete", filter: { createdFrom: 0 } }, { owner })
    await ended(umbra, bulk_id)
    for (const request of [{}, { input: { verb: "delete" } }])
      await expect(umbra.fork(bulk_id, request as never)).rejects.toMatchObject({
        code: "E309",
        message: expect.stringContaining("bulk operation"),
      })
    await expect(umbra.previewFork(bulk_id)).rejects.toMatchObject({ code: "E309" })
    // A workflow of a user may have the same name. A definition without a version would be taken for an operation.
    const same = (handler: string) => flow([{ id: "a", handler }], { name: "umbra.bulk" })
    const job = await umbra.submit(same("fine"), {}, { owner })
    await job.wait()
    const forged = umbra.fork(job.id, { workflow: same("broken"), confirm: { unknown: true } })
    await expect(forged).rejects.toMatchObject({
      code: "E309",
      message: expect.stringContaining("name of bulk operations"),
    })
  })

  it("takes NAME@VERSION, refuses an alias, and codes of errors in small letters", async () => {
    const owner = newOwner()
    await submit(umbra, "fails", { owner })
    const count = (filter: object) => umbra.bulk.count({ verb: "retry", filter }, { owner })
    expect(await count({ workflow: "fails@1" })).toMatchObject({
      count: 1,
      filter: { workflow: "fails", version: 1 },
    })
    expect(await count({ workflow: "fails@2" })).toMatchObject({ count: 0 })
    await expect(count({ workflow: "fails@latest" })).rejects.toMatchObject({
      code: "E309",
      message: expect.stringContaining("do not record the alias"),
    })
    expect(await count({ errorCode: "e401" })).toMatchObject({ count: 1 })
    const { bulk_id } = await umbra.bulk.start(
      { verb: "delete", filter: { workflow: "fails@1" }, rate: fast },
      { owner },
    )
    expect(await ended(umbra, bulk_id)).toMatchObject({ done: 1 })
  })

  it("refuses what is not a request, and says what to do", async () => {
    const owner = newOwner()
    const refused = async (request: object) => {
      const error = await umbra.bulk.start(request as never, { owner }).catch((thrown: UmbraError) => thrown)
      expect(error).toBeInstanceOf(UmbraError)
      expect((error as UmbraError).code).toBe("E309")
      return (error as UmbraError).message
    }
    expect(await refused({ verb: "explode", filter: { workflow: "a" } })).toMatch(
      /cancel, retry, fork, delete/,
    )
    expect(await refused({ verb: "retry" })).toMatch(/filter must be an object/)
    expect(await refused({ verb: "retry", filter: {} })).toMatch(/at least one field/)
    expect(await refused({ verb: "cancel", filter: { labels: {} } })).toMatch(/at least one field/)
    expect(await refused({ verb: "cancel", filter: { workflow: "a" }, reason: "a\0" })).toMatch(/U\+0000/)
    expect(await refused({ verb: "cancel", filter: { workflow: "a" }, reason: "\ud800" })).toMatch(
      /surrogate/,
    )
    expect(await refused({ verb: "retry", filter: { status: ["FAILED"] } })).toMatch(/no field status/)
    expect(await refused({ verb: "retry", filter: { statuses: ["DELETED"] } })).toMatch(/some of/)
    expect(await refused({ verb: "retry", filter: { workflow: "a" }, rate: 0 })).toMatch(/rate/)
    expect(await refused({ verb: "retry", filter: { workflow: "a" }, reason: "why" })).toMatch(/cancel only/)
    expect(await refused({ verb: "retry", filter: { version: 1 } })).toMatch(/workflow must be given/)
    const job = await submit(umbra, "completes", { owner })
    await expect(umbra.bulk.get(job)).rejects.toMatchObject({ code: "E315" })
    await expect(umbra.bulk.abort(job)).rejects.toMatchObject({ code: "E315" })
    expect((await umbra.jobs({ owner })).map(({ job_id }) => job_id)).toEqual([job])
  })
})

it("knows the id above an id", () => {
  expect(idAbove("0198c0de-7a11-7012-9abc-0123456789af")).toBe("0198c0de-7a11-7012-9abc-0123456789b0")
  expect(idAbove("0198c0de-7a11-7012-bfff-ffffffffffff")).toBe("0198c0de-7a11-7012-c000-000000000000")
})
