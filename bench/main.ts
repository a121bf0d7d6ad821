/**
 * `npm run bench` runs everything; `npm run bench -- engine takeover` the named ones. `BENCH_SCALE=0.2` makes
 * it shorter.
 */
import { append } from "./append.ts"
import { attacks } from "./attacks.ts"
import { crowd } from "./crowd.ts"
import { definitions } from "./definitions.ts"
import { engine } from "./engine.ts"
import { fleet } from "./fleet.ts"
import { items } from "./items.ts"
import { pipelines } from "./pipelines.ts"
import { roles } from "./roles.ts"
import { server } from "./server.ts"
import { stopServices } from "./services.ts"
import { takeover } from "./takeover.ts"
import { templates } from "./templates.ts"

const benches: Record<string, () => Promise<unknown>> = {
  definitions: async () => {
    await definitions()
    await templates()
  },
  append,
  engine,
  items,
  takeover,
  crowd,
  server,
  attacks,
  fleet,
  roles,
  pipelines,
}

const asked = process.argv.slice(2)
const unknown = asked.filter(name => benches[name] === undefined)
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(", ")}; there are ${Object.keys(benches).join(", ")}.`)
  process.exit(2)
}
try {
  for (const name of asked.length > 0 ? asked : Object.keys(benches)) {
    console.log(`\n── ${name}`)
    await benches[name]!()
  }
} finally {
  await stopServices()
}
