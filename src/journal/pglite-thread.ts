/**
 * The embedded database, in a thread of its own: it blocks while it works. Statements are prepared once, over the
 * wire protocol: PGlite's own `query` parses, describes and plans each time (0.23 ms against 0.12 ms for one row).
 * Whatever fails without PostgreSQL saying why has broken the instance: the thread ends, and the next one recovers
 * from the write-ahead log as after a killed process.
 */
import { closeSync, fstatSync, openSync, readSync, rmSync } from "node:fs"
import { join } from "node:path"
import { parentPort, workerData } from "node:worker_threads"
import { PGlite, type PGliteOptions, protocol } from "@electric-sql/pglite"
import type { Parameters, Row, Statement } from "./database.ts"
import type { ThreadData, ThreadFailure, ThreadReply, ThreadRequest } from "./pglite-messages.ts"
import { sql } from "./sql.generated.ts"

/**
 * Small buffers halve the memory; the operating system caches files anyway. A small write-ahead log bounds how long
 * recovery takes: nobody else does checkpoints here.
 */
const SETTINGS = ["-c", "shared_buffers=8MB", "-c", "max_wal_size=128MB", "-c", "min_wal_size=32MB"]

/** Node has it, its types do not. */
interface Wasm {
  readonly Module: new (bytes: Uint8Array) => NonNullable<PGliteOptions["pgliteWasmModule"]>
  readonly Memory: new (size: { readonly initial: number }) => { readonly buffer: ArrayBuffer }
}

const { WebAssembly: wasm } = globalThis as unknown as { readonly WebAssembly: Wasm }
const { folder } = workerData as ThreadData
const port = parentPort ?? fail("pglite-thread.ts runs in a worker thread only")
const database = await open()
const prepared = new Set<Statement>()
await query("session", ["0"])

/**
 * The database's own lock file is made empty and filled in a second step. Who is killed in between leaves one that is
 * refused by every later start; and it guards nothing, since every PGlite gives the same pid. Whoever may open the
 * folder at all (folder-lock.ts) is alone, so it is removed.
 */
async function open(): Promise<PGlite> {
  rmSync(join(folder, "postmaster.pid"), { force: true })
  const said: string[] = []
  let isOpening = true
  try {
    return await PGlite.create(folder, {
      startParams: [...PGlite.defaultStartParams, ...SETTINGS],
      pgliteWasmModule: new wasm.Module(bytesOf("@electric-sql/pglite/pglite.wasm")),
      onStderr: line => isOpening && said.push(line) > 0,
    })
  } catch (error) {
    // PGlite says only that it failed; PostgreSQL has said why.
    const reasons = said.flatMap(line => /(?:FATAL|PANIC): .*/.exec(line)?.[0] ?? [])
    throw reasons.length === 0 ? error : new Error(reasons.join("; "), { cause: error })
  } finally {
    isOpening = false
  }
}

/**
 * PGlite would read its program into a buffer of 9 MB. Once that is freed, glibc takes blocks up to that size for ordinary
 * ones, and no longer gives back what the compiler of the program used in passing: 15 to 35 MB for as long as the process
 * lives. Memory of WebAssembly is not malloc's.
 */
function bytesOf(file: string): Uint8Array {
  const opened = openSync(new URL(import.meta.resolve(file)), "r")
  const { size } = fstatSync(opened)
  const { buffer } = new wasm.Memory({ initial: Math.ceil(size / 65_536) })
  const bytes = new Uint8Array(buffer, 0, size)
  for (let read = 0; read < size; ) read += readSync(opened, bytes, { offset: read, position: read })
  closeSync(opened)
  return bytes
}

/** One request at a time, in the order they came. */
let turn: Promise<void> = Promise.resolve()
port.on("message", (request: ThreadRequest) => {
  turn = turn.then(() => answer(request))
})
reply({ kind: "ready" })

async function answer(request: ThreadRequest): Promise<void> {
  try {
    reply({ kind: "done", id: request.id, rows: await execute(request) })
  } catch (error) {
    const failure = asFailure(error)
    reply({ kind: "failed", id: request.id, error: failure })
    if (failure.severity === undefined) setImmediate(() => process.exit(1))
  }
}

async function execute(request: ThreadRequest): Promise<Row[]> {
  if (request.kind === "query") return query(request.statement, request.parameters)
  if (request.kind === "script") await database.exec(request.text)
  else {
    await database.close()
    port.close()
  }
  return []
}

async function query(statement: Statement, parameters: Parameters): Promise<Row[]> {
  const { serialize } = protocol
  const parse = prepared.has(statement) ? [] : [serialize.parse({ name: statement, text: sql[statement] })]
  const bind = serialize.bind({ statement, values: [...parameters] })
  const { messages } = await database.execProtocol(
    Buffer.concat([...parse, bind, serialize.execute(), serialize.sync()]),
  )
  prepared.add(statement)
  const rows: Row[] = []
  for (const message of messages) {
    if (message.name === "dataRow") rows.push((message as unknown as { readonly fields: Row }).fields)
  }
  return rows
}

function asFailure(error: unknown): ThreadFailure {
  const { message, code, severity } = error as ThreadFailure
  return severity === undefined
    ? { message: String(message ?? error) }
    : { message, severity, ...(code && { code }) }
}

function reply(message: ThreadReply): void {
  port.postMessage(message)
}

function fail(message: string): never {
  throw new Error(message)
}
