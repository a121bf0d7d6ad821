/** What handlers of remote workers log travels through Redis to the owner of the job's partition, which stores it. */
import { describe, expect, it } from "vitest"
import { sendLogs } from "../../src/broker/redis/log-streams.ts"
import { partitionOf } from "../../src/engine/ids.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, handler, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const talk = handler("talk", (config: { n: number }, ctx) => {
  for (let line = 1; line <= config.n; line++) ctx.log.info({ line }, `line ${line}`)
  return null
})
const talks = (n: number) => flow([{ id: "a", handler: "talk", config: { n } }])

async function messages(umbra: Umbra, jobId: string): Promise<string[]> {
  const { lines } = await umbra.queries.logs.page(jobId, { limit: 1000 })
  return lines.filter(({ source }) => source === "handler").map(({ message }) => message)
}

describe("log lines of a fleet", () => {
  it("are stored by the owner, and then removed from Redis", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    stage.worker({ handlers: [talk] })
    await stage.served(umbra, "talk")
    const job = await umbra.submit(talks(3))
    await job.wait()
    await until("the lines are stored", async () => (await messages(umbra, job.id)).length === 3)
    expect(await messages(umbra, job.id)).toEqual(["line 1", "line 2", "line 3"])
    const { connection, keys } = await bareConnection(stage)
    const stream = keys.logs(partitionOf(job.id))
    await until("the stream is empty", async () => (await connection.send(["XLEN", stream])) === 0)
  })

  it("wait in Redis for the next owner, once each, and what is missing there is shown", async () => {
    const stage = new FleetStage()
    const first = await stage.engine()
    let open = () => {}
    const promise = new Promise<void>(resolve => {
      open = resolve
    })
    const waits = handler("waits", async (_: unknown, ctx) => {
      ctx.log.info({}, "before")
      await promise
      ctx.log.info({}, "after")
      return null
    })
    stage.worker({ handlers: [waits] })
    await stage.served(first, "waits")
    const { id } = await first.submit(flow([{ id: "a", handler: "waits" }]))
    await until("the first line is stored", async () => (await messages(first, id)).length === 1)
    const { connection, keys } = await bareConnection(stage)
    const stream = keys.logs(partitionOf(id))
    // Two entries that the first owner did not read: one that was stored already, and one after lines that Redis lost.
    const row = { jobId: id, nodeId: "a", item: -1, fence: 1, attempt: 1, level: 1 }
    const [stored] = await first.queries.logs
      .page(id, { limit: 1000 })
      .then(({ lines }) => lines.filter(({ source }) => source === "handler"))
    const rows = [
      { ...row, firstLine: 1, lastLine: 1, lines: JSON.stringify([[stored!.at, 1, "before"]]) },
      { ...row, fence: 9, firstLine: 6, lastLine: 6, lines: JSON.stringify([[stored!.at, 1, "sixth"]]) },
    ]
    await connection.send(["XADD", stream, "*", "rows", JSON.stringify(rows)])
    await connection.send(["XADD", stream, "*", "rows", "not JSON"])
    await first.close()
    const second = await stage.engine()
    open()
    await until("all lines are stored", async () => (await messages(second, id)).length === 3)
    const { lines } = await second.queries.logs.page(id, { limit: 1000 })
    const found = lines
      .filter(({ source }) => source === "handler")
      .map(({ message, lost }) => [message, lost])
    expect(found.toSorted()).toEqual([
      ["after", undefined],
      ["before", undefined],
      ["sixth", 5],
    ])
    await until("the stream is empty", async () => (await connection.send(["XLEN", stream])) === 0)
  })

  it("take no more of Redis than the length of their stream", async () => {
    const { connection, keys } = await bareConnection(new FleetStage())
    const row = {
      nodeId: "a",
      item: -1,
      fence: 1,
      attempt: 1,
      firstLine: 1,
      lastLine: 1,
      level: 1,
      lines: "[]",
    }
    const rows = Array.from({ length: 2000 }, (_, n) => ({ ...row, jobId: `${n}` }))
    const sent: (readonly string[])[] = []
    const send = async (command: readonly string[]) => {
      sent.push(command)
      return connection.send(command)
    }
    for (const each of rows)
      await sendLogs({ link: { keys, send }, partitionOf: () => 5, length: 100 }, [each])
    // Redis removes whole blocks of 100 entries.
    expect(Number(await connection.send(["XLEN", keys.logs(5)]))).toBeLessThanOrEqual(200)
    expect(sent.at(-1)).toEqual(["PUBLISH", keys.news, '{"type":"logs","partitions":[5]}'])
  })
})
