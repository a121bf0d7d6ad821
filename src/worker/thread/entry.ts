/**
 * The entry of a worker thread: runs one attempt at a time, with the same checks as in the worker's own
 * process.
 */
import { parentPort } from "node:worker_threads"
import type { Outcome } from "../../broker/port.ts"
import type { ArtifactAnswer, ArtifactQuestion } from "../../core/artifacts.ts"
import { withinTrace } from "../../trace.ts"
import { sharedArtifacts, type WorkerArtifacts } from "../artifacts.ts"
import { Context, type Reports } from "../context.ts"
import { execute, failed } from "../execute.ts"
import { defineHandler, type Handler } from "../handler.ts"
import { loadHandlers } from "../load.ts"
import { capturingConsole } from "../logs/console.ts"
import { Redactor } from "../redact.ts"
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

const asked = new Map<number, (answer: ArtifactAnswer | null) => void>()
let questions = 0

async function ask(question: ArtifactQuestion): Promise<ArtifactAnswer> {
  const id = ++questions
  const answer = await new Promise<ArtifactAnswer | null>(resolve => {
    asked.set(id, resolve)
    say({ type: "ask", id, question })
  })
  if (answer === null) throw new Error("The engine did not answer: this attempt cannot use artifacts.")
  return answer
}

const reports: Omit<Reports, "logLate"> = {
  heartbeat,
  ask,
  progress: progress => say({ type: "progress", progress }),
  preview: data => say({ type: "preview", data }),
  usage: usage => say({ type: "usage", usage }),
  printed: (level, text) => say({ type: "printed", level, text }),
  log: (level, entry) => say({ type: "log", level, entry }),
}

let current: Context | undefined
/** Opened once: all attempts of a thread have the same. */
let artifacts: WorkerArtifacts | undefined

/**
 * The worker's process attributes each message to the attempt that runs. A handler that has ended may still log, from a
 * timer: that must not become a line of the next attempt, which may be of another owner. So the message of a line that is
 * logged after the end names its attempt.
 */
function attemptReports({ jobId, nodeId, item, shownAttempt, handler }: RunMessage): Reports {
  const names = { jobId, nodeId, item, shownAttempt, handler }
  return { ...reports, logLate: (level, entry) => say({ type: "late", level, entry, names }) }
}

function ended(outcome: Outcome): void {
  current = undefined
  say({ type: "ended", outcome: forSending(outcome) })
}

port.on("message", (message: ToThread) => {
  if (message.type === "abort") current?.abort(new DOMException(message.message, message.name))
  else if (message.type === "answer") {
    asked.get(message.id)?.(message.answer)
    asked.delete(message.id)
  } else run(message).then(ended)
})

async function run(message: RunMessage): Promise<Outcome> {
  const redactor = message.secrets.length === 0 ? null : new Redactor(message.secrets)
  const { maxOutputBytes, maxPreviewBytes, config, parents } = message
  const call = { ...message, parents: () => parents }
  artifacts ??= sharedArtifacts(message.artifacts)
  const reports = attemptReports(message)
  const context = new Context({ call, reports, redactor, maxPreviewBytes, artifacts, now: Date.now })
  current = context
  let handler: Handler = unknownHandler(message.handler)
  try {
    handler = await findHandler(message)
    context.throwIfAborted()
    say({ type: "begun" })
  } catch (thrown) {
    return failed({ handler, context, redactor }, thrown)
  }
  const execution = { handler, config, context, redactor, maxOutputBytes }
  const begin = () => withinTrace(message.traceparent, () => execute(execution))
  return message.capturesConsole ? capturingConsole(context, begin) : begin()
}

async function findHandler({ module, handler: name }: RunMessage): Promise<Handler> {
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
