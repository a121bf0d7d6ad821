import { expect, it } from "vitest"
import { newProgress } from "../../src/core/pipeline/progress.ts"
import type { MessageRow, ParkedState, PipelineStore } from "../../src/journal/port/pipelines.ts"
import { RouteQueue } from "../../src/pipeline/execution/route-queue.ts"

type Retry = MessageRow & ParkedState

const parked = (seq: number, attempts: number): Retry => ({
  ...{ route: 0, seq, attempts, dueAt: 0, parent: null, root: 1, hops: 0, at: 0, body: "{}" },
})

/** An inlet whose every look for what is due is answered by the test; nothing is due later. */
function scene() {
  const answers: ((rows: Retry[]) => void)[] = []
  const readRetries = ({ after }: { readonly after?: object }) =>
    after === undefined ? new Promise<Retry[]>(resolve => answers.push(resolve)) : Promise.resolve([])
  const progress = newProgress(1).routes[0]!
  const inlet = new RouteQueue({
    store: { readRetries } as unknown as PipelineStore,
    ...{ execution: 1, route: 0, prefetch: 10, pageBytes: 1e6, progress },
    now: () => 1000,
    after: () => () => {},
    arrived: () => {},
    broken: error => {
      throw error
    },
  })
  const settle = () => new Promise<void>(resolve => setImmediate(resolve))
  return { inlet, progress, answers, settle }
}

it("P4 a message whose end becomes durable while retries are read is not delivered again", async () => {
  const { inlet, progress, answers, settle } = scene()
  progress.waiting = 2
  inlet.pollRetries()
  answers[0]!([parked(1, 1)])
  await settle()
  expect(inlet.take()).toMatchObject({ seq: 1, dueAt: 0 })
  inlet.pollRetries()
  inlet.settled(1)
  progress.waiting = 1
  answers[1]!([parked(1, 1), parked(2, 1)])
  await settle()
  expect(inlet.take()).toMatchObject({ seq: 2 })
  expect(inlet.take()).toBeUndefined()
})

it("P4 a request for retries during a read is answered by another read", async () => {
  const { inlet, progress, answers, settle } = scene()
  progress.waiting = 1
  inlet.pollRetries()
  inlet.pollRetries()
  answers[0]!([])
  await settle()
  expect(answers.length).toBe(2)
  answers[1]!([parked(1, 1)])
  await settle()
  expect(inlet.take()).toMatchObject({ seq: 1 })
  expect(answers.length).toBe(2)
})

it("P4 a message that fails is tried again once, though it is found before its failure is known to be durable", async () => {
  const { inlet, progress, answers, settle } = scene()
  progress.waiting = 1
  inlet.failing(1)
  inlet.pollRetries()
  answers[0]!([parked(1, 1)])
  await settle()
  expect(inlet.take()).toBeUndefined()
  inlet.settled(1)
  inlet.pollRetries()
  answers[1]!([parked(1, 1)])
  await settle()
  expect(inlet.take()).toMatchObject({ seq: 1 })
  expect(inlet.take()).toBeUndefined()
})

it("P4 no more retries are in memory than there is room for, and the others come when there is some", async () => {
  const { inlet, progress, answers, settle } = scene()
  progress.waiting = 30
  const all = Array.from({ length: 30 }, (_, i) => parked(i + 1, 1))
  inlet.pollRetries()
  answers[0]!(all.slice(0, 11))
  await settle()
  expect(inlet.ready).toBe(10)
  for (let i = 0; i < 4; i++) inlet.take()
  inlet.fill()
  expect(answers.length).toBe(1)
  inlet.take()
  inlet.fill()
  expect(answers.length).toBe(2)
  answers[1]!(all.slice(0, 16))
  await settle()
  expect(inlet.ready).toBe(10)
})
