/** X1 with J14 and J21: a provider for each item of a list. */
import { expect, it } from "vitest"
import { until } from "../engine/stage.ts"
import { deliver, fakeProvider, make, openWith } from "./stage.ts"

it("J21 X5 a node with for_each has no provider, and is told what to do instead", async () => {
  const umbra = await openWith(await fakeProvider())
  const each = { id: "film", handler: "external", provider: "fake", for_each: [1, 2], config: {} }
  await expect(umbra.submit({ name: "films", nodes: [each] })).rejects.toMatchObject({
    code: "E308",
    message: expect.stringContaining("workflow of its own"),
  })
})

it("J14 J21 X1 a list of child jobs has an operation and a slot for each item", async () => {
  const fake = await fakeProvider()
  const umbra = await openWith(fake, { over: { poll_seconds: [3600], concurrency: 1 } })
  await umbra.register(make(["film"], { output: "{{ film.made }}" }))
  const run = { id: "films", handler: "workflow", for_each: [1, 2], config: { workflow: "make" } }
  const job = await umbra.submit({ name: "films", nodes: [run], output: "{{ films }}" })
  const made: string[] = []
  for (const n of [0, 1]) {
    await until("an operation began", () => fake.operations.size === n + 1)
    const id = [...fake.operations.keys()][n]!
    made.push(id)
    fake.complete(id)
    await deliver(umbra, fake, id)
  }
  const ended = await job.wait({ timeoutMs: 10_000 })
  expect(ended).toMatchObject({ status: "COMPLETED" })
  expect([...(ended.output as string[])].sort()).toEqual(made.sort())
})
