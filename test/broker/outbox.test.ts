/** What a worker keeps while its reports do not get through. */
import { expect, it } from "vitest"
import { RedisAwayError } from "../../src/broker/redis/client/connection.ts"
import type { Link } from "../../src/broker/redis/client/link.ts"
import { Keys } from "../../src/broker/redis/keys.ts"
import { Outbox } from "../../src/broker/redis/outbox.ts"
import { silentLog } from "../../src/log.ts"

const turn = () => new Promise(setImmediate)

/** A link that is there, or away, or takes nothing, as the test says. */
function stage() {
  const state = { is: "up" as "up" | "away" | "full" }
  const arrived: string[] = []
  const keys = new Keys({ prefix: "test", store: "3f9a0c12de45", runId: "0123456789ab" })
  const link = {
    get keys() {
      return state.is === "away" ? null : keys
    },
    send: async ([, , , ...fields]: string[]) => {
      await turn()
      if (state.is !== "up") throw new RedisAwayError("It takes nothing.")
      arrived.push(...fields.filter((_, at) => at % 2 === 0))
    },
  } as unknown as Link
  return { state, arrived, outbox: new Outbox(link, silentLog) }
}

for (const way of ["away", "full"] as const)
  it(`S6 of a task's news only the newest is kept while Redis is ${way}, and everything else`, async () => {
    const { state, arrived, outbox } = stage()
    state.is = way
    const sent: string[] = []
    const emit = (text: string, topic?: string) =>
      void outbox.send(3, [text, ""], topic).then(() => sent.push(text))
    for (let n = 0; n < 1000; n++) {
      emit(`a shows ${n}`, "preview a")
      emit(`b shows ${n}`, "preview b")
      if (n % 100 === 0) await turn()
    }
    emit("c is done")
    emit("a is done")
    await turn()
    await turn()
    state.is = "up"
    outbox.sendAgain()
    await outbox.whenEmpty(10_000)
    expect(arrived.sort()).toEqual(["a is done", "a shows 999", "b shows 999", "c is done"])
    expect(sent).toHaveLength(2002)
  })

it("S6 all news arrives while Redis takes it", async () => {
  const { arrived, outbox } = stage()
  for (let n = 0; n < 5; n++) {
    void outbox.send(3, [String(n), ""], "preview a")
    if (n % 2 === 0) await turn()
  }
  await outbox.whenEmpty(10_000)
  expect(arrived).toEqual(["0", "1", "2", "3", "4"])
})
