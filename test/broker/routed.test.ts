import { randomUUID } from "node:crypto"
import { expect, it, onTestFinished } from "vitest"
import type { BrokerHost } from "../../src/broker/port.ts"
import { redisSettings } from "../../src/broker/redis/settings.ts"
import { RoutedBroker, type TaskLane } from "../../src/broker/routed.ts"
import { silentLog } from "../../src/log.ts"
import { pureHandlers } from "../../src/worker/handlers/index.ts"
import { HandlerRegistry } from "../../src/worker/registry.ts"
import { TaskRunner } from "../../src/worker/runner.ts"

const host: BrokerHost = {
  id: "engine",
  events: {
    started: async () => {},
    progress: () => {},
    preview: () => {},
    finished: () => {},
    lost: () => {},
    returned: () => {},
    aborted: () => {},
  },
  epoch: () => 1,
  durable: async () => {},
  served: () => {},
  isSure: () => true,
}
const lane: TaskLane = {
  runs: () => false,
  lacks: needs => needs,
  dispatch: () => {},
  cancel: () => {},
  suspend: () => {},
  runningTask: () => null,
  drain: async () => {},
}

it("S7 a new owner queries no remote worker about nodes that only compute: they ended with the last owner's process", async () => {
  const broker = new RoutedBroker({
    ...{ host, lanes: [lane], concurrency: 10 },
    runner: new TaskRunner({ handlers: new HandlerRegistry(pureHandlers) }),
    redis: {
      url: process.env.UMBRA_TEST_REDIS_URL!,
      settings: redisSettings({ prefix: `test-${randomUUID().slice(0, 8)}` }),
      store: { id: async () => randomUUID(), label: "test" },
      storeLogs: async () => {},
      jobPartition: () => 0,
      log: silentLog,
    },
  })
  onTestFinished(() => broker.close())
  const task = { jobId: randomUUID(), node: 0, attempt: 1 }
  expect(broker.remote?.adopt(task, "transform")).toBe(false)
  expect(broker.remote?.adopt(task, "elsewhere")).toBe(true)
})
