// Handlers of the jobs in jobs.js.
import { setTimeout as sleep } from "node:timers/promises"
import { defineHandler } from "umbra"

export const work = defineHandler({
  name: "demo_work",
  effects: false,
  readsInput: false,
  async run({ seconds, result = null }, ctx) {
    ctx.log.info({ seconds }, "working")
    await sleep(seconds * 1000, undefined, { signal: ctx.signal })
    ctx.log.info({}, "done")
    return result
  },
})

export const charge = defineHandler({
  name: "demo_charge",
  effects: true,
  readsInput: false,
  async run({ card, amount }, ctx) {
    ctx.log.info({ amount }, "asking the bank")
    await sleep(60)
    if (card === "declined") {
      ctx.log.warn({ card }, "the bank declined:\n  reason: limit\n  advice: another card")
      throw new Error("the card was declined by its bank")
    }
    return { amount }
  },
})

export const mail = defineHandler({
  name: "demo_mail",
  effects: true,
  readsInput: false,
  run: ({ to }) => ({ sent: to }),
})

export const page = defineHandler({
  name: "demo_page",
  effects: false,
  async run({ page: number }) {
    await sleep(10)
    if (number === 113) throw Object.assign(new Error("page 113 has no paper"), { retryable: false })
    return { page: number }
  },
})
