/**
 * Appends messages FIRST … LAST to a file, one line each, and says each number once it is written. `UMBRA_DIE_AT` names the
 * how-manieth write, of whatever, after which the process kills itself; `UMBRA_DIE_PART` the bytes of it that are written.
 */
import { open } from "node:fs/promises"
import { builtIn, run } from "../adapter-run.ts"

const [path, first, last] = process.argv.slice(2)
let left = Number(process.env.UMBRA_DIE_AT ?? Number.POSITIVE_INFINITY)

const probe = await open(path!, "a")
const prototype = Object.getPrototypeOf(probe) as { write: (...given: unknown[]) => Promise<unknown> }
await probe.close()
const { write } = prototype
prototype.write = async function (this: unknown, ...given: unknown[]) {
  if (--left > 0) return write.apply(this, given)
  const [bytes, from, length, position] = given as [Buffer, number, number, number]
  const part = Math.ceil(length * Number(process.env.UMBRA_DIE_PART ?? 1))
  if (part > 0) await write.call(this, bytes, from, part, position)
  process.kill(process.pid, "SIGKILL")
  return new Promise(() => {})
}

const sink = builtIn("jsonl_sink")
for (let seq = Number(first); seq <= Number(last); seq++) {
  await run(sink, { seq, body: { n: seq, text: "ä".repeat(seq) }, config: { path } })
  process.stdout.write(`${seq}\n`)
}
