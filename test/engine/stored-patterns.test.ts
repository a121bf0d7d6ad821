/** Patterns that are refused now, of versions that were stored before. */
import { expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, open } from "./stage.ts"

const definition = {
  ...flow([{ id: "a", handler: "transform", config: { value: "{{ input.a }}" } }], { output: "{{ a }}" }),
  name: "stored",
  input: { properties: { a: { type: "string", pattern: "^(?=a)(a|aa)+$" } } },
}

it("E101 a lookahead is refused at push; a stored version with one keeps working, within its time limit", async () => {
  const journal = openMemory(createMemoryStore({ partitions: 4 }))
  const umbra = await open({ at: journal })
  await expect(umbra.register(definition)).rejects.toMatchObject({
    code: "E101",
    message: expect.stringContaining('input.properties.a.pattern: The pattern has a lookahead ("(?=")'),
  })
  await journal.putWorkflow({
    ...{ owner: "local", name: "stored", hash: "0".repeat(64), createdAt: 0 },
    definition: JSON.stringify(definition),
  })
  const job = await umbra.submit("stored", { a: "aaa" })
  expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: "aaa" })
  await expect(umbra.submit("stored", { a: "ba" })).rejects.toMatchObject({ code: "E304" })
  await expect(umbra.submit("stored", { a: `${"a".repeat(100)}!` })).rejects.toMatchObject({
    code: "E304",
    message: expect.stringContaining("could not be checked within 500 ms"),
  })
})
