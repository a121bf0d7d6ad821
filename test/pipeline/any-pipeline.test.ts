/**
 * Any route graph, any failures, a process that dies at any commit: every message is acknowledged or a dead letter, as a
 * model says; lineage is a complete forest; nothing is processed after its acknowledgement.
 */

import { expect, it } from "vitest"
import fc from "../support/property.ts"
import { died, world } from "./world.ts"

const adapters = fc.array(fc.nat({ max: 2 ** 30 }), { minLength: 1, maxLength: 3 })
const pipelines = fc.integer({ min: 1, max: 4 }).chain(routes =>
  fc.record({
    seed: fc.nat(),
    routes: fc.array(
      fc.record({
        adapters,
        outbound: fc.option(fc.nat({ max: routes - 1 })),
        other: fc.option(fc.nat({ max: routes - 1 })),
        concurrency: fc.integer({ min: 1, max: 4 }),
        prefetch: fc.integer({ min: 1, max: 4 }),
        gathers: fc.option(fc.record({ count: fc.integer({ min: 1, max: 3 }), at: fc.nat({ max: 2 }) }), {
          freq: 4,
        }),
      }),
      { minLength: routes, maxLength: routes },
    ),
    init: fc.array(fc.nat({ max: routes - 1 }), { minLength: 1, maxLength: 5 }),
    /** At which commits what goes wrong. */
    faults: fc.array(
      fc.record({
        at: fc.integer({ min: 1, max: 12 }),
        kind: fc.constantFrom("dies before", "dies after", "answer lost", "not sent" as const),
      }),
      { maxLength: 5 },
    ),
  }),
)

it("P2 P3 P5 any pipeline, any failures, crashes at any commit: all is settled once, and the lineage is whole", async () => {
  await fc.assert(
    fc.asyncProperty(pipelines, async drawn => {
      const scene = world(drawn)
      for (let lives = 1; (await scene.live()) === died; lives++) expect(lives).toBeLessThan(50)
      await scene.mustBeRight()
    }),
    {
      numRuns: Number(process.env.RUNS ?? 150),
      ...(process.env.SEED ? { seed: Number(process.env.SEED) } : {}),
    },
  )
})
