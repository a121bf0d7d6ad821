/** J18: the events of a job, page by page. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { connect } from "../../src/client/index.ts"
import { openStage, type Stage, type Store, stores } from "./stage.ts"

interface Event {
  readonly seq: number
  readonly type: string
  readonly idempotency_key: string
}

/** One fact, its cancellation, stands for thirty events. */
const wide = {
  name: "wide",
  nodes: Array.from({ length: 30 }, (_, n) => ({ id: `n${n}`, handler: "approval" })),
}
const large = {
  name: "large",
  nodes: Array.from({ length: 30 }, (_, n) => ({
    id: `n${n}`,
    handler: "transform",
    config: { value: "{{ input.text }}" },
  })),
}

describe.each(Object.entries(stores))("GET /jobs/{job}/events on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let job: string
  let all: Event[]
  const page = async (query: string): Promise<{ events: Event[]; next: string | null }> =>
    (await stage.ask(`/jobs/${job}/events${query}`)).body

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location })
    const { id } = await stage.umbra.submit(wide as never)
    job = id
    await stage.umbra.cancel(job)
    all = (await stage.umbra.events(job)) as never
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it.each([1, 7, 29, 1000])(
    "J18 pages of %i, put together, are the whole: none twice, none left out",
    async limit => {
      const found: Event[] = []
      for (let query = `?limit=${limit}`; ; ) {
        const { events, next } = await page(query)
        expect(events.length).toBeLessThanOrEqual(limit)
        found.push(...events)
        if (next === null) break
        expect(events).toHaveLength(limit)
        query = `?limit=${limit}&after=${next}`
      }
      expect(found.map(event => event.idempotency_key)).toEqual(all.map(event => event.idempotency_key))
    },
  )

  it("J18 after a seq come the events with a greater one, as before", async () => {
    const { seq } = all[0]!
    const { events, next } = await page(`?after=${seq}`)
    expect(events.map(event => event.idempotency_key)).toEqual(
      all.filter(event => event.seq > seq).map(event => event.idempotency_key),
    )
    expect(next).toBeNull()
    expect(await page(`?after=${all.at(-1)!.seq}`)).toEqual({ events: [], next: null })
  })

  it("J18 what is no place is refused with a sentence", async () => {
    for (const after of ["x", "-1", "1.2.3", "1e3", ""])
      expect((await stage.ask(`/jobs/${job}/events?after=${after}`)).body.detail).toMatch(
        /^The parameter after must be `next` of the previous page, or the seq of an event/,
      )
  })

  it("J18 a page ends where it has become large, whatever its limit", async () => {
    const text = "x".repeat(200_000)
    const { id } = await stage.umbra.submit(large as never, { text })
    await stage.umbra.wait(id)
    const { body } = await stage.ask(`/jobs/${id}/events?limit=10000`)
    expect(body.next).not.toBeNull()
    const rest = (await stage.ask(`/jobs/${id}/events?limit=10000&after=${body.next}`)).body
    expect(rest.events.length).toBeGreaterThan(0)
  })

  it("J18 the client follows the pages", async () => {
    const events = await connect({ url: stage.server.url }).events(job)
    expect(events.map(event => event.idempotency_key)).toEqual(all.map(event => event.idempotency_key))
  })
})
