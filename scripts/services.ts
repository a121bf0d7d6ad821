/**
 * `npm run services -- COMMAND …` runs a command beside the private PostgreSQL and Redis that the tests use, for
 * as long as it takes: `npm run services -- npx vitest test/journal` watches, `-- bash` gives a shell.
 */
import { main } from "./interruption.ts"
import { startServices } from "./services/all.ts"
import { show } from "./services/run.ts"

await main(async signal => {
  const [command, ...args] = process.argv.slice(2)
  if (command === undefined) throw new Error("say which command to run: npm run services -- COMMAND …")
  const services = await startServices(signal)
  try {
    return await show(command, args, { env: { ...process.env, ...services.env }, signal })
  } finally {
    await services.stop()
  }
})
