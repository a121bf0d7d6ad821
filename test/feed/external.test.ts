/** S4, X1: what streams tell of work that is done elsewhere, and what they do not keep of it. */
import { describe, expect, it, onTestFinished } from "vitest"
import type { Fact } from "../../src/core/facts.ts"
import { readFact } from "../../src/feed/known-jobs.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { deliver, fakeProvider, make, optionsFor, waiting } from "../provider/stage.ts"
import { openFeedStage } from "./stage.ts"

async function light({ type, at, ...data }: Fact): Promise<Fact | null> {
  const text = JSON.stringify(data)
  const row = { jobId: "j", seq: 1, at, type, data: text, bytes: text.length }
  return readFact(openMemory(), row)
}

describe("external work in streams", () => {
  it("S4 a job's stream says which operation a node waits for, and until when, without its data", async () => {
    const fake = await fakeProvider()
    const stage = await openFeedStage(
      createMemoryStore(),
      optionsFor(fake, { over: { poll_seconds: [3600] } }),
    )
    onTestFinished(() => stage.umbra.close())
    const job = await stage.umbra.submit(make(), null, { owner: "ada" })
    const { sink } = await stage.job("ada", job.id)
    const id = await waiting(stage.umbra, fake, job.id)
    const waitingEvent = () =>
      sink.received.find(({ event, data }) => event === "node" && data.status === "WAITING")
    await expect.poll(waitingEvent).toBeDefined()
    expect(waitingEvent()?.data.waiting_on).toEqual({
      kind: "external",
      provider: "fake",
      external_id: id,
      next_poll_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      until: null,
    })
    fake.complete(id)
    await deliver(stage.umbra, fake, id)
    await expect.poll(() => sink.states(job.id).at(-1)).toBe("COMPLETED")
    expect(JSON.stringify(sink.received)).not.toContain("made")
  })

  it("S4 keeps neither outputs and large previews of operations nor errors of their polls", async () => {
    const [at, node, attempt] = [1, 0, 1]
    const fault = { code: "E408", message: "a long story", retryable: true }
    const polled: Fact = {
      ...{ type: "poll_scheduled", at, node, attempt, next_poll_at: 9, because: "error", fault },
    }
    const { fault: _, ...rest } = polled as typeof polled & { fault?: unknown }
    expect(await light(polled)).toEqual(rest)
    const preview: Fact = { type: "preview_published", at, node, attempt, data: { film: "large" } }
    // A short one is told with its node, and not kept.
    expect(await light(preview)).toEqual(preview)
    const large = { ...preview, data: { film: "x".repeat(20_000) } }
    expect(await light(large)).toEqual({ ...preview, data: undefined })
    const completed: Fact = { type: "node_completed", at, node, attempt, output: { film: "large" } }
    expect(await light(completed)).toEqual({ ...completed, output: null })
  })
})
