/** Tasks that lie in Redis, handed to nobody yet, when their jobs get another owner. */
import { expect, it } from "vitest"
import { jobPartition } from "../../src/engine/ids.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"

it("S6 S7 tasks that an earlier owner had sent, and no worker had taken, run at once under the next owner", async () => {
  const stage = new FleetStage()
  const first = await stage.engine()
  const slow = gate()
  const settings = { worker: { concurrency: 1 }, redis: { prefetch: 1 } }
  stage.worker({ handlers: [slow.handler, handler("quick", () => "done")], ...settings })
  await stage.served(first, "gate")
  for (let n = 0; n < 2; n++) await first.submit(flow([{ id: "a", handler: "gate" }]))
  await until("it takes no more", () => first.workers()[0]!.queued === 1)
  const unread = await first.submit(flow([{ id: "a", handler: "quick" }]))
  const { connection, keys } = await bareConnection(stage)
  await until("it lies in Redis", async () => (await connection.send(["XLEN", keys.tasks("quick")])) === 1)
  const partition = String(jobPartition(unread.id))
  const epoch = async () => Number(await connection.send(["ZSCORE", keys.epochs, partition]))
  const before = await epoch()
  let received = ""
  const listening = (await bareConnection(stage)).connection
  await listening.subscribe(keys.control, message => {
    received += message
  })
  await first.close()
  const second = await stage.engine()
  await stage.served(second, "quick")
  await until(
    "workers know of the new owner",
    async () => received.includes("epochs") && (await epoch()) > before,
  )
  slow.open("done")
  expect(await second.wait(unread.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
})
