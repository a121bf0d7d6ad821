/** For tests of workflows and handlers: a virtual clock, a store that several engines share, a fake provider, failpoints. */
export type { Clock } from "../engine/clock.ts"
export { armFailpoint, type Failpoint, failpointNames } from "../failpoints.ts"
export { createMemoryStore, type MemoryStore, openMemory } from "../journal/sqlite/memory.ts"
export type { FakeAnswer, FakeOperation, FakeScript, FakeStep, FakeWebhook } from "./fake-provider.ts"
export {
  type FakeDelivery,
  FakeProvider,
  type FakeProviderOptions,
  type FakeRequest,
  type Misbehaviour,
  startFakeProvider,
} from "./fake-provider.ts"
export { VirtualClock, type VirtualClockOptions } from "./virtual-clock.ts"
