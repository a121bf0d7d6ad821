/** BullMQ workers in this process, chained: each puts its message into the next queue. */
import { Queue, Worker } from "bullmq"

const kept = { removeOnComplete: true, removeOnFail: true }

export class BullChain {
  readonly #queues: Queue[]
  readonly #workers: Worker[]
  #left = 0
  #ended = () => {}

  constructor(url: string, length: number) {
    const { hostname: host, port } = new URL(url)
    const connection = { host, port: Number(port), maxRetriesPerRequest: null }
    const names = Array.from({ length }, (_, i) => `chain-${length}-${i}`)
    this.#queues = names.map(name => new Queue(name, { connection }))
    this.#workers = names.map(
      (name, i) =>
        new Worker(
          name,
          async ({ data }) => {
            await this.#queues[i + 1]?.add("message", { ...data, isDone: true }, kept)
            if (i === length - 1 && --this.#left === 0) this.#ended()
          },
          { connection, concurrency: 100 },
        ),
    )
  }

  /** Returns messages per second. */
  async run(count: number): Promise<number> {
    const begun = performance.now()
    this.#left = count
    const end = new Promise<void>(resolve => {
      this.#ended = resolve
    })
    for (let n = 0; n < count; n += 1000) {
      const size = Math.min(1000, count - n)
      const batch = Array.from({ length: size }, (_, i) => ({
        name: "message",
        data: { n: n + i, text: "some words of a message" },
        opts: kept,
      }))
      await this.#queues[0]!.addBulk(batch)
    }
    await end
    return (count * 1000) / (performance.now() - begun)
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map(worker => worker.close()))
    for (const queue of this.#queues) {
      await queue.obliterate({ force: true })
      await queue.close()
    }
  }
}
