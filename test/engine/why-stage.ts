/** What drivers of reasons share: a node has a reason, its cause is removed, and it leaves the reason. */
import { expect } from "vitest"
import type { ReasonKind } from "../../src/jobs/why/reasons.ts"
import type { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { until } from "./stage.ts"

/** The kinds that a driver has brought about and removed again in this process. */
export const driven = new Set<ReasonKind>()

export interface Driven {
  readonly umbra: Umbra
  /** Absent: the driver waits in real time, for what other processes and brokers do. */
  readonly clock?: VirtualClock
}

export interface Expected {
  readonly jobId: string
  readonly node: string
  readonly kind: ReasonKind
  /** Of a pipeline: the route that has the reason, not the node. */
  readonly route?: string
}

export async function kindOf(umbra: Umbra, jobId: string, node: string): Promise<ReasonKind | null> {
  const { reasons } = await umbra.why(jobId, { node })
  return reasons[0]?.kind ?? null
}

async function shown(umbra: Umbra, { jobId, node, route }: Expected) {
  const { reasons, routes } = await umbra.why(jobId, { node })
  return route === undefined ? reasons[0] : routes?.find(each => each.route === route)
}

/**
 * The node has this reason, `remove` takes the cause away, and the reason goes within a second of virtual time. `after`:
 * who answers then, if it is not the same process.
 */
export async function leaves(
  { umbra, clock }: Driven,
  expected: Expected,
  remove: () => unknown,
  after: () => Umbra = () => umbra,
): Promise<void> {
  const { kind } = expected
  const name = expected.route === undefined ? `node ${expected.node}` : `route ${expected.route}`
  let last: string | undefined
  const has = async () => {
    last = (await shown(umbra, expected))?.kind
    if (last === kind) return true
    // `until` polls every 25 ms in the end, and a store counts as away after seconds.
    clock?.advance(40)
    return false
  }
  await until(`${name} has the reason ${kind}`, has, 30_000).catch(error => {
    throw new Error(`${error.message}, but ${last}`)
  })
  const { sentence } = (await shown(umbra, expected))!
  expect(sentence, kind).toMatch(/^(Node|Route) .{10,}\.$/)
  await remove()
  const from = clock?.now() ?? 0
  await until(`${name} has left the reason ${kind}`, async () => {
    if ((await shown(after(), expected))?.kind !== kind) return true
    if (clock !== undefined && clock.now() - from < 1000) clock.advance(10)
    return false
  })
  driven.add(kind)
}
