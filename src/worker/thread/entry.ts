/**
 * The entry of a worker thread: runs one attempt at a time, with the same checks as in the worker's own
 * process.
 */
import { parentPort } from "node:worker_threads"
import type { Outcome } from "../../broker/port.ts"
import { withinTrace } from "../../trace.ts"
import { Context, type Reports } from "../context.ts"
import { execute, failed } from "../execute.ts"
import { defineHandler, type Handler } from "../handler.ts"
import { loadHandlers } from "../load.ts"
import { plainFields, Redactor } from "../redact.ts"
import type { FromThread, RunMessage, ThreadOutcome, ToThread } from "./pool.ts"

const port = parentPort
if (port === null) throw new Error("This file runs in a worker thread only.")

const say = (message: FromThread): void => port.postMessage(message)

/**
 * A handler may send a heartbeat with every step of a busy loop: at most one per this many milliseconds
 * becomes a message.
 */
const heartbeatMs = 10
let nextHeartbeat = 0

function heartbeat(): void {
  const now = performance.now()
  if (now < nextHeartbeat) return
  nextHeartbeat = now + heartbeatMs
  say({ type: "heartbeat" })
}

const reports: Reports = {
  heartbeat,
  progress: progress => say({ type: "progress", progress }),
  preview: data => say({ type: "preview", data }),
  usage: usage => say({ type: "usage", usage }),
  log: (level, fields, message) => say({ type: "log", level, fields: plainFields(fields), message }),
}

let current: Context | undefined

port.on("message", (message: ToThread) => {
  if (message.type === "abort") current?.abort(new DOMException(message.message, message.name))
  else run(message).then(outcome => say({ type: "ended", outcome: forSending(outcome) }))
})

async function run(message: RunMessage): Promise<Outcome> {
  const redactor = message.secrets.length === 0 ? null : new Redactor(message.secrets)
  const { maxOutputBytes, maxPreviewBytes, config, parents } = message
  const call = { ...message, parents: () => parents }
  const context = new Context({ call, reports, redactor, maxPreviewBytes, now: Date.now })
  current = context
  let handler: Handler = unknownHandler(message.handler)
  try {
    handler = await handlerOf(message)
    context.throwIfAborted()
    say({ type: "begun" })
  } catch (thrown) {
    return failed({ handler, context, redactor }, thrown)
  }
  const execution = { handler, config, context, redactor, maxOutputBytes }
  return withinTrace(message.traceparent, () => execute(execution))
}

async function handlerOf({ module, handler: name }: RunMessage): Promise<Handler> {
  const found = (await loadHandlers(module)).find(handler => handler.name === name)
  if (found !== undefined) return found
  throw new Error(
    `${module} does not export the handler "${name}", so a thread cannot find it. Export it there.`,
  )
}

const unknownHandler = (name: string) => defineHandler({ name, run: () => null })

function forSending(outcome: Outcome): ThreadOutcome {
  if (outcome.type !== "completed") return outcome
  return { type: "completed", text: outcome.text, usage: outcome.usage }
}
