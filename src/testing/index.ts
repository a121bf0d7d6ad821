/** For tests of workflows and handlers: time that a test moves, a store that several engines share, failpoints. */
export type { Clock } from "../engine/clock.ts"
export { armFailpoint, type Failpoint, failpointNames } from "../failpoints.ts"
export { openMemory } from "../journal/memory.ts"
export { createMemoryStore, type MemoryStore } from "../journal/memory-store.ts"
export { VirtualClock, type VirtualClockOptions } from "./virtual-clock.ts"
