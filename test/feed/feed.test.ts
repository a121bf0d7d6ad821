/** S4: the moments at which a change could be missed or told twice, each held still and looked at. */
import { afterEach, describe, expect, it } from "vitest"
import { type Position, positionText, readPosition } from "../../src/feed/position.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import type { UmbraOptions } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { type FeedStage, openFeedStage } from "./stage.ts"

const one = { name: "one", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] }
const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }
const handlers = [defineHandler({ name: "approval", run: () => waitForSignal("approved") })]
const whole = ["PENDING", "QUEUED", "DISPATCHING", "PROCESSING", "COMPLETED"]

let open: FeedStage[] = []
const stageOn = async (store = createMemoryStore(), options: UmbraOptions = {}): Promise<FeedStage> => {
  const stage = await openFeedStage(store, { handlers, ...options })
  open.push(stage)
  return stage
}
afterEach(async () => {
  for (const stage of open) stage.letGo()
  await Promise.all(open.map(({ umbra }) => umbra.close()))
  open = []
})

const run = async ({ umbra }: FeedStage, owner = "ada") => {
  const job = await umbra.submit(one, null, { owner })
  await job.wait()
  return job.id
}

describe("the feed", () => {
  it("S4 a client that reconnects while a page is being read misses nothing of it", async () => {
    const stage = await stageOn()
    const before = await stage.owner("ada")
    before.stream.close()
    const bob = await stage.owner("bob")
    stage.hold()
    // The page under way holds this job, but was asked for without Ada's.
    const job = await run(stage)
    await expect.poll(() => stage.held).toBeGreaterThan(0)
    const joining = stage.owner("ada", before.sink.lastId)
    await new Promise(resolve => setImmediate(resolve))
    stage.letGo()
    const { sink, stream } = await joining
    await expect.poll(() => sink.states(job)).toEqual(whole)
    expect(bob.sink.states(job)).toEqual([])
    for (const each of [stream, bob.stream]) each.close()
  })

  it("S4 a snapshot that is ahead of what this process has sent is not followed by events that it contains", async () => {
    const stage = await stageOn()
    const first = await stage.owner("ada")
    stage.hold()
    const job = await stage.umbra.submit(approval, null, { owner: "ada" })
    await expect.poll(() => stage.held).toBeGreaterThan(0)
    await expect.poll(async () => (await stage.umbra.graph(job.id)).workflow_status).toBe("WAITING_SINGLE")
    const late = stage.owner("ada")
    // The page is told only after the snapshot has been looked up.
    await new Promise(resolve => setImmediate(resolve))
    stage.letGo()
    const { sink, stream } = await late
    await job.signal("approved", null)
    await expect.poll(() => first.sink.states(job.id)).toEqual(whole)
    await expect.poll(() => sink.states(job.id)).toEqual(["COMPLETED"])
    const resumed = await stage.owner("ada", sink.lastId)
    const another = await run(stage)
    await expect.poll(() => resumed.sink.states(another)).toEqual(whole)
    expect(resumed.sink.states(job.id)).toEqual([])
    for (const each of [stream, first.stream, resumed.stream]) each.close()
  })

  it("S4 a client that got more events from another process gets none twice, and misses none", async () => {
    const store = createMemoryStore()
    const fast = await stageOn(store)
    const deaf = await stageOn(store, { feed: { pollMs: 60_000 } })
    await expect.poll(() => fast.umbra.health().partitions).toBe(32)
    const anchor = await deaf.owner("ada")
    const client = await fast.owner("ada")
    // From now on one process knows only of what it commits itself.
    store.feedListeners.clear()
    const jobs = [await run(fast), await run(fast)]
    for (const job of jobs) await expect.poll(() => client.sink.states(job)).toEqual(whole)
    expect(anchor.sink.received).toHaveLength(1)
    // At each of these events in turn the client goes over to it. All are ahead of it.
    const events = client.sink.received.slice(1)
    const moved = await Promise.all(events.map(({ id }) => deaf.owner("ada", id!)))
    const last = await run(deaf)
    for (const [index, { sink, stream }] of moved.entries()) {
      await expect.poll(() => sink.states(last)).toEqual(whole)
      const old = sink.received.filter(({ data }) => data.job_id !== last)
      expect(old.map(({ data }) => data)).toEqual(events.slice(index + 1).map(({ data }) => data))
      // From its new ids it goes on where it was, where all of it is known.
      const again = await fast.owner("ada", sink.lastId)
      expect(again.sink.received).toEqual([])
      for (const each of [stream, again.stream]) each.close()
    }
    // Sooner or later it looks by itself.
    deaf.umbra.feed.changed(Array(store.partitions).keys())
    for (const job of jobs) await expect.poll(() => anchor.sink.states(job)).toEqual(whole)
    for (const each of [client.stream, anchor.stream]) each.close()
  })

  it("S4 a position nearly as old as what is removed begins again", async () => {
    const stage = await stageOn(createMemoryStore(), { engine: { retentionSeconds: 100 } })
    const { sink, stream } = await stage.owner("ada")
    const position = readPosition(sink.lastId) as Position
    const reasons = async (seconds: number) => {
      const old = positionText({ ...position, at: position.at - 1000 * seconds })
      const { sink: found, stream: again } = await stage.owner("ada", old)
      again.close()
      return found.received.map(({ event, data }) => data.reason ?? event)
    }
    expect(await reasons(80)).toEqual([])
    expect(await reasons(95)).toEqual(["too_far_behind", "snapshot"])
    stream.close()
  })

  it("S4 reads nothing without a follower, and begins again at the store's position", async () => {
    const stage = await stageOn()
    const { stream } = await stage.owner("ada")
    await run(stage)
    stream.close()
    stage.hold()
    await run(stage)
    expect(stage.umbra.feed.isFollowed).toBe(false)
    expect(stage.held).toBe(0)
    stage.letGo()
    const { sink, stream: next } = await stage.owner("ada")
    const job = await run(stage)
    await expect.poll(() => sink.states(job)).toEqual(whole)
    next.close()
  })

  it("S4 when the store does not answer, it continues later and nothing is lost", async () => {
    const store = createMemoryStore()
    const stage = await stageOn(store, { feed: { pollMs: 20 } })
    const { sink, stream } = await stage.owner("ada")
    const { journal } = stage.umbra.feed.parts
    const read = journal.feed.read
    let failures = 0
    journal.feed.read = () => {
      failures++
      return Promise.reject(new Error("away"))
    }
    const job = await run(stage)
    await expect.poll(() => failures).toBeGreaterThan(1)
    journal.feed.read = read
    await expect.poll(() => sink.states(job)).toEqual(whole)
    stream.close()
  })

  it("S4 follows more jobs than it keeps, and more owners than it names", async () => {
    const stage = await stageOn(createMemoryStore(), { feed: { knownJobs: 2 } })
    const owners = Array.from({ length: 60 }, (_, n) => `owner ${n}`)
    const streams = await Promise.all(owners.map(owner => stage.owner(owner)))
    const jobs = await Promise.all(
      owners.map(owner => stage.umbra.submit(approval, null, { owner }).then(({ id }) => id)),
    )
    for (const job of jobs) await stage.umbra.signal(job, "approved")
    for (const [index, { sink }] of streams.entries()) {
      await expect.poll(() => sink.states(jobs[index]!)).toEqual(whole)
      expect(sink.received.filter(({ event }) => event === "job")).toHaveLength(whole.length)
    }
    for (const { stream } of streams) stream.close()
  })

  it("S4 the stream of a job that is run by another engine has its states and its progress", async () => {
    const store = createMemoryStore()
    let go: () => void = () => {}
    const talker = defineHandler({
      name: "talker",
      run: async (_, { progress }) => {
        progress(50, "half")
        await new Promise<void>(resolve => {
          go = resolve
        })
        return 1
      },
    })
    const runner = await stageOn(store, { handlers: [talker] })
    const onlooker = await stageOn(store, { handlers: [talker], roles: ["api"] })
    const all = await onlooker.owner("ada")
    const job = await runner.umbra.submit({ name: "talks", nodes: [{ id: "t", handler: "talker" }] }, null, {
      owner: "ada",
    })
    const { sink } = await onlooker.job("ada", job.id)
    await expect
      .poll(() => sink.received.find(({ event }) => event === "progress")?.data)
      .toMatchObject({
        job_id: job.id,
        node: "t",
        node_pct: 50,
        progress_message: "half",
        progress_pct: 0,
      })
    go()
    await expect
      .poll(() => sink.received.at(-1))
      .toMatchObject({ event: "end", data: { reason: "job_ended" } })
    await expect.poll(() => all.sink.states(job.id)).toEqual(whole)
    all.stream.close()
  })
})
