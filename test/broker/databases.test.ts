import { expect, it } from "vitest"
import { flow, handler } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

/** Of the Redis that the tests share. */
function inDatabase(number: number): FleetStage {
  const address = new URL(process.env.UMBRA_TEST_REDIS_URL!)
  address.pathname = `/${number}`
  return new FleetStage(address.href)
}

it("S7 fleets in two databases of one Redis do not receive each other's messages, whichever has higher epochs", async () => {
  const young = inDatabase(1)
  const old = inDatabase(2)
  Object.assign(old.redis, { prefix: young.redis.prefix })
  for (let owners = 0; owners < 5; owners++) old.rob()
  const run = (by: string) => handler("where", () => by)
  const here = await young.engine()
  young.worker({ handlers: [run("young")] })
  await young.served(here, "where")
  const there = await old.engine()
  old.worker({ handlers: [run("old")] })
  await old.served(there, "where")
  const one = flow([{ id: "a", handler: "where" }])
  for (let times = 0; times < 8; times++) {
    const jobs = [await here.submit(one), await there.submit(one)]
    const ended = await Promise.all(jobs.map(job => job.wait()))
    expect(ended.map(({ output }) => output)).toEqual([{ a: "young" }, { a: "old" }])
  }
})
