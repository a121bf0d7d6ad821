import { expect, it } from "vitest"
import { connect } from "../../src/client/index.ts"

it("J18 events of many pages come as one list, from behind what was seen", async () => {
  const asked: string[] = []
  const pages = [
    { events: [{ seq: 5 }, { seq: 5 }], next: "5.1" },
    { events: [{ seq: 5 }], next: "5.2" },
    { events: [{ seq: 6 }], next: null },
  ]
  const fetch = (async (url: string | URL) => {
    asked.push(new URL(url).search)
    return Response.json(pages[asked.length - 1])
  }) as typeof globalThis.fetch
  const events = await connect({ url: "http://127.0.0.1:1", fetch }).events("j", { after: 4 })
  expect(events.map(({ seq }) => seq)).toEqual([5, 5, 5, 6])
  expect(asked).toEqual(["?after=4&limit=10000", "?after=5.1&limit=10000", "?after=5.2&limit=10000"])
})

it("J18 a server without pages gets one request", async () => {
  const fetch = (async () => Response.json({ events: [{ seq: 5 }] })) as unknown as typeof globalThis.fetch
  expect(await connect({ url: "http://127.0.0.1:1", fetch }).events("j")).toEqual([{ seq: 5 }])
})
