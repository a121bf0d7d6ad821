/**
 * Appends messages to a file, one line each, the first alone and the others at once, and says each number once it is
 * written. `UMBRA_DIE_AT` names the how-manieth write, of whatever, at which the process kills itself; `UMBRA_DIE_PART`
 * the part of it that is written before.
 */
import { open } from "node:fs/promises"
import { builtIn, run } from "../adapter-run.ts"

const [path, ...seqs] = process.argv.slice(2)
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
const append = async (seq: number) => {
  await run(sink, { seq, body: { n: seq, text: "ä".repeat(seq) }, config: { path } })
  process.stdout.write(`${seq}\n`)
}
const [first, ...others] = seqs.map(Number)
await append(first!)
await Promise.all(others.map(append))
