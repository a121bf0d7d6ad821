/** Results that cannot be decided on at once are in nobody's journal yet. */
import { expect, it } from "vitest"
import { jobPartition } from "../../src/engine/ids.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, gate, handler, open, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"

it("S6 a result is not acknowledged while an output must be read before it can be stored", async () => {
  const stage = new FleetStage()
  const journal = openMemory(stage.store)
  const { readFact } = journal
  let reads = 0
  let answer = () => {}
  const answered = new Promise<void>(resolve => {
    answer = resolve
  })
  journal.readFact = async (...of) => {
    reads += 1
    await answered
    return readFact.apply(journal, of)
  }
  const umbra = await open({
    at: journal,
    roles: ["engine"],
    redisUrl: stage.url,
    redis: stage.redis,
    engine: { largeOutputBytes: 100 },
  })
  const slow = gate()
  stage.worker({ handlers: [handler("large", () => "x".repeat(1000)), slow.handler] })
  await stage.served(umbra, "large")
  const nodes = [
    { id: "a", handler: "large" },
    { id: "b", handler: "gate" },
  ]
  const job = await umbra.submit(flow(nodes, { output: { size: "{{ a | length }}" } }))
  await slow.came()
  const { connection, keys } = await bareConnection(stage)
  const stream = keys.results(jobPartition(job.id))
  const waiting = async () => await connection.send(["XLEN", stream])
  await until(
    "the large output is stored",
    async () => (await umbra.graph(job.id)).nodes[0]!.status === "COMPLETED",
  )
  await until("and its report gone", async () => (await waiting()) === 0)
  const before = reads
  slow.open("done")
  await until("it must be read", () => reads > before)
  // What is acknowledged in error is gone within a few answers.
  for (let n = 0; n < 50; n++) await connection.send(["PING"])
  expect(await waiting()).toBe(1)
  answer()
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  await until("it is stored", async () => (await waiting()) === 0)
})
