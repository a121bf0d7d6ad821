// Handlers for greeting.yaml: every export that is a handler counts.
import { setTimeout as sleep } from "node:timers/promises"
import { defineHandler } from "umbra"

export const weatherReport = defineHandler({
  name: "weather_report",
  async run({ place }, ctx) {
    ctx.progress(50, `looking at the ${place}`)
    await sleep(200, undefined, { signal: ctx.signal })
    return { text: `the ${place} is calm today.` }
  },
})
