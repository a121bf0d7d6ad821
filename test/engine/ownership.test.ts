import { expect, it } from "vitest"
import { Ownership, type OwnershipParts } from "../../src/engine/partitions/ownership.ts"
import { ReadyPartitions } from "../../src/engine/partitions/ready-partitions.ts"
import type { Heartbeat } from "../../src/journal/port/journal.ts"
import { until } from "./stage.ts"

const PARTITIONS = 4

/** `engines`: the others. */
function heartbeat(engines: readonly string[], owners: readonly (string | null)[]): Heartbeat {
  return {
    engines: engines.map(engine => ({
      ...{ engine, beat: 1, follows: false },
      place: JSON.stringify({ host: "other", pid: 1, takes_partitions: true }),
    })),
    partitions: owners.map((owner, partition) => ({ partition, epoch: 1, owner })),
    inbox: [],
  } as Heartbeat
}

it("a heartbeat that arrives while partitions are being taken is not lost", async () => {
  const owned: OwnershipParts["partitionOwner"]["owned"] = new Map()
  let recovered = () => {}
  const recovering = new Promise<number>(resolve => {
    recovered = () => resolve(0)
  })
  const parts = {
    engine: "a",
    journal: {
      capabilities: { partitions: PARTITIONS, exclusive: false },
      takePartitions: async ({ expected }: { expected: readonly { partition: number; epoch: number }[] }) =>
        expected.map(({ partition, epoch }) => ({ partition, epoch: epoch + 1 })),
      releasePartitions: async () => {},
      readMessages: async () => [],
    },
    partitionOwner: { owned, jobs: new Map(), broker: {}, queue: { partitionsAdded: () => {} } },
    partitions: new ReadyPartitions(1),
    recovery: { recover: () => recovering },
    wakeups: { partitionsAdded: async () => {} },
    inbox: { read: async () => {} },
    retention: { partitionsAdded: () => {} },
    rollUps: { partitionsAdded: () => {} },
    sweep: { partitionsAdded: () => {} },
    reasons: { partitionsAdded: () => {} },
    observer: { followed: () => {}, released: () => {} },
    log: { warn: (fields: object) => expect.fail(JSON.stringify(fields)) },
    ...{ leaseMs: 1e6, beatMs: 1e6, rebalanceMs: 1e6, drainMs: 0 },
  }
  const ownership = new Ownership(parts as unknown as OwnershipParts)
  // The other engine has released its partitions and is still there: half of them are for this one.
  ownership.receive(heartbeat(["b"], [null, null, null, null]))
  await until("the first partitions are taken", () => owned.size === 2)
  // It has left while the first ones are recovered. No other heartbeat follows.
  ownership.receive(heartbeat([], ["a", "a", null, null]))
  recovered()
  await until("the others are taken too", () => owned.size === PARTITIONS)
})
