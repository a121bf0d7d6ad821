/** What an execution says of its dead letters, and `max_dead_letters`. */
import { afterEach, describe, expect, it } from "vitest"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

let umbra: Umbra | undefined
afterEach(async () => {
  await umbra?.close()
  umbra = undefined
})

/** Refuses the numbers for which it is told to, for good. */
function picky(refuses: (n: number) => boolean): Adapter {
  return adapter("picky", ({ body }) => {
    const { n } = body as { n: number }
    if (refuses(n)) throw Object.assign(new Error(`number ${n} is refused`), { retryable: false })
    return body
  })
}

const pipeline = (count: number, more: object = {}) => ({
  name: "picky",
  init: { body: { count } },
  ...more,
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["picky"], { outbound: "store", error_handling: { circuit_breaker: false } }),
    route("store", ["record"]),
  ],
})

async function run(definition: object, adapters: readonly Adapter[]) {
  umbra = await openUmbra("memory:", { adapters: [numbers, ...adapters] })
  const job = await umbra.submit(definition as WorkflowSource)
  return umbra.wait(job.id)
}

describe("dead letters of an execution", () => {
  it("a page is full with 4 MiB of bodies, and the next continues after it", async () => {
    const large = adapter("large", ({ body }, context) => {
      const { count } = body as { count: number }
      for (let n = 1; n <= count; n++) context.emit({ n, text: "x".repeat(900_000) })
    })
    const definition = pipeline(7)
    const routes = [route("source", ["large"], { outbound: "work" }), ...definition.routes.slice(1)]
    const { job_id } = await run({ ...definition, routes }, [large, recorder(), picky(() => true)])
    const first = await umbra!.pipelines.deadLetters(job_id)
    expect(first.dead_letters.map(({ id }) => id)).toEqual(["work:1", "work:2", "work:3", "work:4"])
    const second = await umbra!.pipelines.deadLetters(job_id, { after: first.next! })
    expect(second.dead_letters.map(({ id }) => id)).toEqual(["work:5", "work:6", "work:7"])
    expect(second.next).toBe(null)
  })

  it("the graph says how many failed permanently and why the first did; one that is replayed no longer counts", async () => {
    let isMended = false
    const { job_id, status } = await run(pipeline(5), [recorder(), picky(n => n % 2 === 0 && !isMended)])
    expect(status).toBe("COMPLETED")
    expect((await umbra!.graph(job_id)).dead_letters).toEqual({
      count: 2,
      first: { message: "work:2", error: { code: "E401", message: "number 2 is refused" } },
    })
    isMended = true
    const one = await umbra!.pipelines.replay(job_id, { messages: ["work:2"] })
    expect((await umbra!.graph(job_id)).dead_letters).toMatchObject({
      count: 1,
      first: { message: "work:4" },
    })
    const rest = await umbra!.pipelines.replay(job_id)
    expect((await umbra!.graph(job_id)).dead_letters).toEqual({ count: 0, first: null })
    for (const { jobId } of [one, rest]) {
      expect((await umbra!.wait(jobId)).status).toBe("COMPLETED")
      expect((await umbra!.graph(jobId)).dead_letters).toEqual({ count: 0, first: null })
    }
  })

  it("a job of nodes has no dead_letters in its graph", async () => {
    umbra = await openUmbra("memory:")
    const job = await umbra.submit({
      name: "plain",
      nodes: [{ id: "a", handler: "transform", config: { value: 1 } }],
    } as WorkflowSource)
    await umbra.wait(job.id)
    expect((await umbra.graph(job.id)).dead_letters).toBeUndefined()
  })
})

describe("max_dead_letters", () => {
  it("a number that is exceeded fails the job with E712, and a retry of the job tries its dead letters again", async () => {
    let isMended = false
    const store = recorder()
    const { job_id, status, error } = await run(pipeline(100, { max_dead_letters: 2 }), [
      store,
      picky(n => n <= 3 && !isMended),
    ])
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ code: "E712" })
    expect(error!.message).toMatch(/^\d+ messages failed permanently, and max_dead_letters allows 2\./)
    isMended = true
    await umbra!.retry(job_id)
    expect((await umbra!.wait(job_id)).status).toBe("COMPLETED")
    expect(new Set(store.seen.map(body => (body as { n: number }).n)).size).toBe(100)
    expect(store.seen.length).toBe(100)
    expect((await umbra!.graph(job_id)).dead_letters).toEqual({ count: 0, first: null })
  })

  it("a number that is reached and not exceeded does not fail the job", async () => {
    const { status } = await run(pipeline(20, { max_dead_letters: 2 }), [recorder(), picky(n => n <= 2)])
    expect(status).toBe("COMPLETED")
  })

  it("0 allows none", async () => {
    const { status, error } = await run(pipeline(1, { max_dead_letters: 0 }), [recorder(), picky(() => true)])
    expect([status, error?.code]).toEqual(["FAILED", "E712"])
    expect(error!.message).toMatch(/^1 message failed permanently, and max_dead_letters allows 0\./)
  })

  it("the error counts every message that failed permanently by then, as the graph does", async () => {
    const { job_id, error } = await run(pipeline(5, { max_dead_letters: 1 }), [recorder(), picky(() => true)])
    const { count } = (await umbra!.graph(job_id)).dead_letters!
    expect(count).toBe(5)
    expect(error!.message).toMatch(/^5 messages failed permanently, and max_dead_letters allows 1\./)
  })

  it("a retry that changes nothing fails the job again", async () => {
    const { job_id, status } = await run(pipeline(5, { max_dead_letters: 1 }), [
      recorder(),
      picky(n => n <= 3),
    ])
    expect(status).toBe("FAILED")
    await umbra!.retry(job_id)
    expect(await umbra!.wait(job_id)).toMatchObject({ status: "FAILED", error: { code: "E712" } })
  })

  it("a share is that of the messages of one route, judged when the execution has drained", async () => {
    let isMended = false
    const store = recorder()
    const { job_id, status, error } = await run(pipeline(100, { max_dead_letters: 0.1 }), [
      store,
      picky(n => n <= 11 && !isMended),
    ])
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ code: "E712" })
    expect(error!.message).toContain('11 of 100 messages of route "work" failed permanently')
    // Everything else has been done by then.
    expect(store.seen.length).toBe(89)
    isMended = true
    await umbra!.retry(job_id)
    expect((await umbra!.wait(job_id)).status).toBe("COMPLETED")
    expect(store.seen.length).toBe(100)
  })

  it("a share that is kept does not fail the job", async () => {
    const { status } = await run(pipeline(100, { max_dead_letters: 0.1 }), [recorder(), picky(n => n <= 10)])
    expect(status).toBe("COMPLETED")
  })
})
