import { expect, it } from "vitest"
import type { PipelineStore } from "../../src/journal/port/pipelines.ts"
import { ExecutionStorage } from "../../src/pipeline/storage.ts"

it("P3 a claim that becomes durable while another message reads it is not given twice", async () => {
  const answers: (() => void)[] = []
  // What is read is what was there when the reading began.
  const readStored = () => new Promise(resolve => answers.push(() => resolve(new Map())))
  const storage = new ExecutionStorage({ readStored } as unknown as PipelineStore, 1)
  const [first, second] = [storage.open("r:1"), storage.open("r:2")]
  const claims = [first.claim("key"), second.claim("key")]
  answers[0]!()
  expect(await claims[0]).toBe(true)
  storage.ended(first.changes)
  storage.durable(first.changes)
  answers[1]?.()
  expect(await claims[1]).toBe(false)
})
