/** A fleet in one process: engines on a store of memory, workers of their own, a Redis that the tests share. */
import { randomUUID } from "node:crypto"
import { onTestFinished } from "vitest"
import { RedisConnection } from "../../src/broker/redis/client/connection.ts"
import { Keys } from "../../src/broker/redis/keys.ts"
import { shortStoreId } from "../../src/broker/redis/worker/stores.ts"
import { createMemoryStore, type MemoryStore } from "../../src/journal/sqlite/memory.ts"
import { type FleetWorker, openWorker, type WorkerOptions } from "../../src/open-worker.ts"
import type { Umbra, UmbraOptions } from "../../src/umbra.ts"
import { openOn, until } from "../engine/stage.ts"
import { seizePartition, storeId } from "../support/store-tables.ts"

const sharedUrl = process.env.UMBRA_TEST_REDIS_URL!

/** Quick, so that a death is noticed within a test; and yet nobody is dead because the machine stood still for a moment. */
const quick = { workerBeatSeconds: 0.1, workerDeadSeconds: 5, rosterSeconds: 0.05, answerSeconds: 2 }
/** What is waited for must not come because it was claimed in the end. A test of claims says when they come. */
const unclaimed = { claimAfterSeconds: 3600 }

export class FleetStage {
  readonly store: MemoryStore
  readonly url: string
  readonly redis: NonNullable<UmbraOptions["redis"]>

  constructor(url = sharedUrl, settings: FleetStage["redis"] = quick, partitions = 64) {
    this.store = createMemoryStore({ partitions })
    this.url = url
    this.redis = { ...unclaimed, ...settings, prefix: `test-${randomUUID().slice(0, 8)}` }
  }

  /** An engine that runs no node itself. */
  engine(options: UmbraOptions = {}): Promise<Umbra> {
    return openOn(this.store, { roles: ["engine"], redisUrl: this.url, redis: this.redis, ...options })
  }

  /** Resolves when the engine knows of somebody who runs the handler. */
  served(umbra: Umbra, handler: string): Promise<void> {
    return until("a worker is known", async () =>
      umbra.workers().some(({ state, handlers }) => state === "live" && handlers.includes(handler)),
    )
  }

  /** What engines say of the store. */
  get announced() {
    return { id: async () => storeId(this.store), label: "memory" }
  }

  keys(runId: string): Keys {
    return new Keys({ prefix: this.redis.prefix!, store: shortStoreId(storeId(this.store)), runId })
  }

  /** Every partition is somebody else's, and its owner does not know. */
  rob(): void {
    for (let id = 0; id < this.store.partitions; id++) seizePartition(this.store, id, null)
  }

  worker(options: WorkerOptions = {}): FleetWorker {
    const worker = openWorker(this.url, { ...options, redis: { ...this.redis, ...options.redis } })
    onTestFinished(() => worker.close({ drainSeconds: 0 }))
    return worker
  }
}

/** To look, and to do, what no engine and no worker does. */
export async function bareConnection(stage: FleetStage) {
  const connection = await RedisConnection.open({ url: stage.url, answerMs: 5000 })
  onTestFinished(() => connection.close())
  const [, runId] = /run_id:(\w+)/.exec(String(await connection.send(["INFO", "server"])))!
  return { connection, keys: stage.keys(runId!) }
}
