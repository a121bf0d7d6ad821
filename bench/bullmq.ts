/** The same workloads as BullMQ flows: each job of a flow has one parent, which runs after its children. */
import { FlowProducer, Queue, QueueEvents } from "bullmq"
import type { Workload } from "./workloads.ts"

interface Flow {
  readonly name: string
  readonly queueName: string
  readonly data: object
  readonly opts: object
  readonly children?: Flow[]
}

const kept = { removeOnComplete: true, removeOnFail: true }

export class BullBench {
  readonly #connection: { host: string; port: number; maxRetriesPerRequest: null }
  readonly #flows: FlowProducer
  readonly #queue: Queue
  readonly #events: QueueEvents
  readonly #waiting = new Map<string, () => void>()

  constructor(url: string) {
    const { hostname: host, port } = new URL(url)
    this.#connection = { host, port: Number(port), maxRetriesPerRequest: null }
    const connection = this.#connection
    this.#flows = new FlowProducer({ connection })
    this.#queue = new Queue("noop", { connection })
    this.#events = new QueueEvents("noop", { connection })
    this.#events.on("completed", ({ jobId }) => {
      this.#waiting.get(jobId)?.()
      this.#waiting.delete(jobId)
    })
  }

  async ready(): Promise<void> {
    await Promise.all([
      this.#flows.waitUntilReady(),
      this.#queue.waitUntilReady(),
      this.#events.waitUntilReady(),
    ])
  }

  /** A chain is a flow. A fan begins with a separate job, because no job has several parents. */
  async runJob({ nodes }: Workload): Promise<void> {
    const isChain = nodes.every(({ dependencies }) => dependencies.length <= 1)
    if (isChain) return this.#ended(chainOf(nodes.length))
    await this.#ended(flow())
    await this.#ended(flow(Array.from({ length: nodes.length - 2 }, () => flow())))
  }

  #ended(tree: Flow): Promise<void> {
    return new Promise((resolve, reject) => {
      const jobId = `job-${++made}`
      this.#waiting.set(jobId, resolve)
      this.#flows.add({ ...tree, opts: { ...kept, jobId } }).catch(reject)
    })
  }

  async close(): Promise<void> {
    await Promise.all([this.#flows.close(), this.#events.close()])
    await this.#queue.obliterate({ force: true })
    await this.#queue.close()
  }
}

let made = 0

function flow(children?: Flow[]): Flow {
  return {
    name: "noop",
    queueName: "noop",
    data: {},
    opts: kept,
    ...(children === undefined ? {} : { children }),
  }
}

function chainOf(length: number): Flow {
  return length === 1 ? flow() : flow([chainOf(length - 1)])
}
