import { expect, it } from "vitest"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { open } from "./stage.ts"

const yaml = `
name: greeting
nodes:
  - id: text
    handler: transform
    config: { value: "Hello {{ input.name }}" }
output: "{{ text }}"
`
const json = JSON.stringify({
  name: "braces",
  nodes: [{ id: "a", handler: "input" }],
  output: "{{ a.name }}",
})

it("register and submit take a workflow as YAML or JSON text", async () => {
  const umbra = await open()
  expect(await umbra.register(yaml)).toMatchObject({ name: "greeting", version: 1, unchanged: false })
  expect(await umbra.register(yaml)).toMatchObject({ version: 1, unchanged: true })
  const outputs = []
  for (const source of [yaml, json, "greeting", "greeting@1"])
    outputs.push((await (await umbra.submit(source, { name: "Ada" })).wait()).output)
  expect(outputs).toEqual(["Hello Ada", "Ada", "Hello Ada", "Hello Ada"])
})

it("a text that is submitted again is neither compiled nor stored again", async () => {
  const journal = openMemory()
  let stored = 0
  const put = journal.putWorkflow.bind(journal)
  journal.putWorkflow = workflow => {
    stored++
    return put(workflow)
  }
  const umbra = await open({ at: journal })
  for (let n = 0; n < 3; n++) await (await umbra.submit(yaml, { name: "Ada" })).wait()
  expect(stored).toBe(1)
})

it("a text with problems is refused with their lines and columns", async () => {
  const umbra = await open()
  const wrong = yaml.replace("handler: transform", "handler: transfrom")
  for (const refused of [umbra.register(wrong), umbra.submit(wrong)])
    await expect(refused).rejects.toMatchObject({
      code: "E103",
      message: expect.stringContaining("E103 5:14 nodes[0].handler"),
      details: { problems: [{ line: 5, column: 14 }] },
    })
  await expect(umbra.register("greeting")).rejects.toMatchObject({ code: "E101" })
})

it("code that passes on a name never stores a text", async () => {
  const umbra = await open()
  for (const text of [yaml, json]) await expect(umbra.accept(text)).rejects.toMatchObject({ code: "E305" })
})
