/** `GET /jobs/{job}/facts?follow`: facts as they become durable, resumable by seq, with the live overlay. */
import { describe, expect, it, onTestFinished } from "vitest"
import { connect, type FactStreamEvent } from "../../src/client/index.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { openStage, stores } from "./stage.ts"

const flow = {
  name: "two",
  nodes: [
    { id: "first", handler: "approval" },
    { id: "slow", handler: "slow", dependencies: ["first"] },
  ],
}

async function scene(open: (typeof stores)[keyof typeof stores]) {
  const store = await open()
  let finish: () => void = () => {}
  const finished = new Promise<void>(resolve => {
    finish = resolve
  })
  const handlers = [
    defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
    defineHandler({
      name: "slow",
      run: async () => {
        await finished
        return "done"
      },
    }),
  ]
  const stage = await openStage({ location: store.location, umbra: { handlers } })
  onTestFinished(async () => {
    finish()
    await stage.close()
    await store.remove()
  })
  await stage.umbra.register(flow as never)
  const { id } = await stage.umbra.submit("two")
  return { stage, id, finish, client: connect({ url: stage.server.url }) }
}

describe.each(Object.entries(stores))("following the facts of a job on %s", (_, open) => {
  it("gives each fact once, in order, with its seq as the id, and the overlay without one", async () => {
    const { id, finish, stage, client } = await scene(open)
    const seen: FactStreamEvent[] = []
    for await (const event of client.followFacts(id)) {
      seen.push(event)
      if (event.type === "fact" && event.data.type === "node_waiting")
        await stage.umbra.signal(id, "approved")
      if (event.type === "live" && event.data.nodes.some(({ status }) => status === "RUNNING")) finish()
    }
    const facts = seen.flatMap(event => (event.type === "fact" ? [event.data] : []))
    const { body } = await stage.ask(`/jobs/${id}/facts`)
    expect(facts).toEqual(body.facts)
    for (const event of seen) expect(event.id).toBe(event.type === "fact" ? String(event.data.seq) : null)
    expect(seen.at(-1)).toMatchObject({ type: "end", data: { reason: "job_ended" } })
  })

  it("resumes after the last id, with the index of each fact, while the job runs and after it has ended", async () => {
    const { id, finish, stage, client } = await scene(open)
    const first: FactStreamEvent[] = []
    for await (const event of client.followFacts(id)) {
      first.push(event)
      if (event.type === "fact" && event.data.type === "node_waiting") break
    }
    const lastEventId = first.findLast(event => event.type === "fact")!.id!
    await stage.umbra.signal(id, "approved")
    finish()
    await stage.umbra.wait(id)
    const rest: FactStreamEvent[] = []
    for await (const event of client.followFacts(id, { lastEventId })) rest.push(event)
    const facts = [...first, ...rest].flatMap(event => (event.type === "fact" ? [event.data] : []))
    expect(facts).toEqual((await stage.ask(`/jobs/${id}/facts`)).body.facts)
    const again: FactStreamEvent[] = []
    for await (const event of client.followFacts(id, { lastEventId: String(facts.at(-1)!.seq) }))
      again.push(event)
    expect(again.map(({ type }) => type)).toEqual(["end"])
  })

  it("refuses an id that is not of this stream", async () => {
    const { id, stage } = await scene(open)
    const { body } = await stage.ask(`/jobs/${id}/facts?follow`, { headers: { "last-event-id": "j1.x" } })
    expect(body.code).toBe("E633")
  })
})
