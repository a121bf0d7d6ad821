// Run something every night: a schedule over five nights in which the clocks are set, with an outage, and a backfill of what it
// missed. Time is a clock that the program moves, so that it takes no night: node examples/nightly/main.js
import { readFileSync } from "node:fs"
import { openUmbra } from "umbra"
import { VirtualClock } from "umbra/testing"
import { parse } from "yaml"

const read = name => readFileSync(new URL(name, import.meta.url), "utf8")
const HOUR = 3_600_000
const clock = new VirtualClock({ start: Date.parse("2026-03-26T12:00:00Z") })
const umbra = await openUmbra("memory:", { clock })
await umbra.register(read("report.yaml"))
const { nightly } = parse(read("schedules.yaml")).schedules
const { schedule } = await umbra.schedules.put("nightly", nightly)
console.log(`next: ${schedule.next_ticks.slice(0, 4).join(" ")}`)

/** Waits until the last tick before now has an outcome. */
async function decided(tick) {
  for (;;) {
    const { fires } = await umbra.schedules.fires("nightly")
    if (fires[0]?.tick === tick) return fires[0]
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

// Three nights. In the third one there is no two o'clock in Berlin: the report is made at three.
for (const tick of schedule.next_ticks.slice(0, 3)) {
  while (clock.now() < Date.parse(tick)) clock.advance(HOUR)
  const { outcome, job_id } = await decided(tick)
  const { output } = await umbra.wait(job_id)
  console.log(`${tick} ${outcome}: ${output}`)
}

// For two days nothing runs. Afterwards only the last night is caught up.
clock.advance(48 * HOUR)
const late = await decided(schedule.next_ticks[4])
await umbra.wait(late.job_id)
const { fires } = await umbra.schedules.fires("nightly", { limit: 2 })
for (const { tick, outcome, reason } of [...fires].reverse())
  console.log(`${tick} ${outcome}${reason === null ? "" : `: ${reason}`}`)

// The missed night is made up for.
const range = { from: fires[1].tick, to: fires[0].tick }
const { count } = await umbra.schedules.previewBackfill("nightly", range)
const { bulk_id } = await umbra.schedules.backfill("nightly", range)
await umbra.wait(bulk_id)
const { ticks } = await umbra.schedules.ticks("nightly", range)
const filled = ticks.find(({ kind }) => kind === "backfill")
console.log(`backfill of ${count}: ${filled.tick} ${(await umbra.wait(filled.job_id)).output}`)
await umbra.close()
