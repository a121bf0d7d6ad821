// Cancel a running job: its handler gets the abort signal. Retry one that failed: only what is not done runs again.
// Run it: node examples/cancel-and-retry.js
import { setTimeout as sleep } from "node:timers/promises"
import { defineHandler, fail, openUmbra } from "umbra"

let isBankOpen = false
const runs = { prepare: 0, pay: 0 }

const prepare = defineHandler({
  name: "prepare",
  run() {
    runs.prepare++
    return { amount: 12 }
  },
})

const pay = defineHandler({
  name: "pay",
  run({ amount }) {
    runs.pay++
    if (!isBankOpen) fail("The bank is closed", { code: "BANK_CLOSED", retryable: false })
    return { paid: amount }
  },
})

const wait = defineHandler({
  name: "wait",
  async run(_config, ctx) {
    try {
      await sleep(60_000, undefined, { signal: ctx.signal })
    } finally {
      console.log("the handler was told to stop")
    }
  },
})

const umbra = await openUmbra("memory:", { handlers: [prepare, pay, wait] })

const long = await umbra.submit({ name: "long", nodes: [{ id: "wait", handler: "wait" }] })
await sleep(50)
await long.cancel("nobody needs it")
console.log((await long.wait()).status) // CANCELLED

const payment = await umbra.submit({
  name: "payment",
  nodes: [
    { id: "prepare", handler: "prepare" },
    { id: "pay", handler: "pay", config: { amount: "{{ prepare.amount }}" } },
  ],
})
const failed = await payment.wait()
console.log(failed.status, failed.error) // FAILED { code: 'BANK_CLOSED', message: 'The bank is closed', node: 'pay' }

isBankOpen = true
await payment.retry()
const { status, output } = await payment.wait()
console.log(status, output, runs) // COMPLETED { pay: { paid: 12 } } { prepare: 1, pay: 2 }
await umbra.close()
