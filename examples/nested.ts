// A workflow that runs another one: the child is a job of its own, the parent sees one node. Typed on both sides.
// Run it: npx tsx examples/nested.ts
import { defineHandler, openUmbra, workflow } from "umbra"
import { z } from "zod"

let isPrinterJammed = true

const print = defineHandler({
  name: "print",
  config: z.object({ text: z.string() }),
  output: z.object({ pages: z.number() }),
  run({ text }) {
    if (isPrinterJammed) throw Object.assign(new Error("the printer is jammed"), { retryable: false })
    return { pages: Math.ceil(text.length / 10) }
  },
})

const letter = workflow("letter", { input: z.object({ name: z.string() }) }, flow => {
  const text = flow.transform("text", { body: flow.input.name })
  const printed = flow.node("printed", print, { text: text.output.body })
  return { pages: printed.output.pages }
})

const invitation = workflow("invitation", { input: z.object({ guest: z.string() }) }, flow => {
  const sent = flow.run("sent", letter, { name: flow.input.guest })
  return { pages: sent.output.pages }
})

const umbra = await openUmbra("memory:", { handlers: [print] })
// Stores `letter` too: a job may come to it at once.
const job = await umbra.submit(invitation, { guest: "Ada Lovelace" })
const failed = await job.wait()
console.log(failed.status, failed.error?.message.replace(/job \S+/, "job …"))

const [child] = await umbra.jobs({ parentId: job.id })
console.log(child?.workflow, child?.status) // letter FAILED

isPrinterJammed = false
// Retries the child job too, which continues with its unfinished nodes.
await job.retry()
const { status, output } = await job.wait()
console.log(status, output) // COMPLETED { pages: 2 }
await umbra.close()
