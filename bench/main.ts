/**
 * `npm run bench` runs everything of Umbra's own; `npm run bench -- engine takeover` the named ones. `BENCH_SCALE=0.2`
 * makes it shorter. `npm run bench -- peers` measures other engines beside Umbra; it installs them and has options of
 * its own (peers.ts). `npm run bench -- retention` runs for minutes and has options of its own too (retention.ts), and
 * `npm run bench -- compare OLD_DIST` measures an older build beside this one (compare.ts).
 */

import { parseArgs } from "node:util"
import { append } from "./append.ts"
import { artifacts } from "./artifacts.ts"
import { attacks } from "./attacks.ts"
import { compare } from "./compare.ts"
import { crowd } from "./crowd.ts"
import { definitions } from "./definitions.ts"
import { engine } from "./engine.ts"
import { fleet } from "./fleet.ts"
import { history } from "./history.ts"
import { items } from "./items.ts"
import { lists } from "./lists.ts"
import { logs } from "./logs.ts"
import { peers } from "./peers.ts"
import { pipelines } from "./pipelines.ts"
import { retention } from "./retention.ts"
import { roles } from "./roles.ts"
import { schedules } from "./schedules.ts"
import { server } from "./server.ts"
import { stopServices } from "./services.ts"
import { takeover } from "./takeover.ts"
import { templates } from "./templates.ts"
import { ui } from "./ui.ts"

const benches: Record<string, () => Promise<unknown>> = {
  definitions: async () => {
    await definitions()
    await templates()
  },
  append,
  engine,
  items,
  lists,
  logs,
  artifacts,
  takeover,
  schedules,
  crowd,
  server,
  attacks,
  history,
  fleet,
  roles,
  pipelines,
  ui,
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    repetitions: { type: "string" },
    write: { type: "boolean", default: false },
    from: { type: "string" },
    minutes: { type: "string", default: "3" },
    rate: { type: "string", default: "4000" },
    retention: { type: "string", default: "10" },
    store: { type: "string", default: "postgres" },
    pipeline: { type: "boolean", default: false },
  },
})
const only = values.only.split(",").filter(name => name !== "")
// `compare` is followed by a folder, not by the name of another bench.
const [asked, old] = positionals[0] === "compare" ? [["compare"], positionals[1]] : [positionals]
const named: typeof benches = {
  ...benches,
  compare: () => compare({ old, only, repetitions: Number(values.repetitions ?? 7), store: values.store }),
  peers: () =>
    peers({
      ...{ quick: values.quick, only, repetitions: Number(values.repetitions ?? 3) },
      ...{ write: values.write, from: values.from },
    }),
  retention: () =>
    retention({
      ...{ minutes: Number(values.minutes), rate: Number(values.rate), retention: Number(values.retention) },
      ...{ store: values.store, pipeline: values.pipeline },
    }),
}
const unknown = asked.filter(name => named[name] === undefined)
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(", ")}; there are ${Object.keys(named).join(", ")}.`)
  process.exit(2)
}
// Services and processes of a bench end with the `exit` event, which a signal alone does not cause.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(1))
try {
  for (const name of asked.length > 0 ? asked : Object.keys(benches)) {
    console.log(`\n── ${name}`)
    await named[name]!()
  }
} finally {
  await stopServices()
}
