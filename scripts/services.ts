/**
 * `npm run services -- COMMAND …` runs a command beside the private PostgreSQL and Redis that the tests use:
 * `npm run services -- npx vitest test/journal` watches tests, `-- bash` opens a shell.
 */
import { main } from "./interruption.ts"
import { startServices } from "./services/all.ts"
import { show } from "./services/run.ts"

await main(async signal => {
  const [command, ...args] = process.argv.slice(2)
  if (command === undefined) throw new Error("name the command to run: npm run services -- COMMAND …")
  const services = await startServices(signal)
  try {
    return await show(command, args, { env: { ...process.env, ...services.env }, signal })
  } finally {
    await services.stop()
  }
})
