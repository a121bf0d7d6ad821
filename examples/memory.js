// The smallest program: open, register a handler, submit, wait, close. Nothing outlives the process.
// Run it: node examples/memory.js
import { defineHandler, openUmbra } from "umbra"

const greet = defineHandler({
  name: "greet",
  run: ({ name }) => ({ text: `Hello ${name}` }),
})

const hello = {
  name: "hello",
  nodes: [
    { id: "greeting", handler: "greet", config: { name: "{{ input.name }}" } },
    { id: "loud", handler: "transform", config: { value: "{{ greeting.text | upper }}!" } },
  ],
  output: "{{ loud }}",
}

const umbra = await openUmbra("memory:", { handlers: [greet] })
const job = await umbra.submit(hello, { name: "Ada" })
const { status, output } = await job.wait()
console.log(status, output) // COMPLETED HELLO ADA!
await umbra.close()
