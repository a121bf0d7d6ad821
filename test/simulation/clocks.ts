/** The clocks of a simulated fleet's engines, in whole milliseconds: each is ahead of or behind the others once it has jumped. */
import type { Clock } from "../../src/engine/clock.ts"
import type { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Random } from "../crash/random.ts"

/** Less than a minute: then no tick of a schedule is late, so that none may be missed. */
export const LONGEST_JUMP_MS = 20_000

export class EngineClocks {
  readonly #clock: VirtualClock
  readonly #skews: { ms: number }[] = []

  constructor(clock: VirtualClock) {
    this.#clock = clock
  }

  ofEngine(): Clock {
    const clock = this.#clock
    const skew = { ms: 0 }
    this.#skews.push(skew)
    return {
      now: () => Math.floor(clock.now()) + skew.ms,
      after: (ms, fire) => clock.after(ms, fire),
      random: () => clock.random(),
    }
  }

  jump(random: Random): void {
    random.pick(this.#skews).ms = random.between(-LONGEST_JUMP_MS, LONGEST_JUMP_MS)
  }

  /** All are right again. */
  set(): void {
    for (const skew of this.#skews) skew.ms = 0
  }
}
