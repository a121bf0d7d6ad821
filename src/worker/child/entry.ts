/** The process that runs the handlers of `umbra dev`: a runner as in a worker, whose events are sent to the parent. */
import { artifactSettings } from "../../artifacts/settings.ts"
import type { AttemptEvents, RunningAttempt } from "../../broker/runner.ts"
import type { ArtifactAnswer } from "../../core/artifacts.ts"
import { handlerCatalog } from "../../definition/handler.ts"
import { loadWorkflow } from "../../definition/index.ts"
import { UmbraError } from "../../errors.ts"
import { logTo } from "../../log.ts"
import { sharedArtifacts } from "../artifacts.ts"
import { builtinSpecs } from "../handlers/specs.ts"
import { loadHandlers } from "../load.ts"
import { LogBuffer } from "../logs/buffer.ts"
import { safeFields } from "../logs/safe-fields.ts"
import { HandlerRegistry } from "../registry.ts"
import { TaskRunner } from "../runner.ts"
import { workerSettings } from "../settings.ts"
import type { FromChild, LoadedHandler, ToChild } from "./process.ts"

const handlers = new HandlerRegistry()
const log = logTo((level, fields, message) =>
  send({ type: "log", level, fields: safeFields(fields).fields, message }),
)
/** The parent stores the lines, and waits again before it does. */
const LOG_DELAY_MS = 50
const logs = new LogBuffer({
  ...{ log, delayMs: LOG_DELAY_MS, maxBytes: workerSettings().logBufferBytes },
  sink: async rows => send({ type: "lines", rows }),
})
/** Created when the modules are loaded: that message of the parent has the location of artifacts. */
let runner = new TaskRunner({ handlers, log, logs, capturesConsole: true })
const attempts = new Map<number, RunningAttempt>()
/** Places in the rate of a provider that attempts wait for. */
const places = new Map<number, () => void>()
/** Questions of attempts, by their numbers. */
const questions = new Map<number, (answer: ArtifactAnswer | null) => void>()
let asked = 0

function send(message: FromChild): void {
  if (process.connected) process.send!(message)
}

/** Ctrl-C goes to the whole group of processes: the parent decides what happens. */
process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit())
process.on("message", (message: ToChild) => {
  if (message.type === "load") void load(message.modules, message.artifacts)
  else if (message.type === "check")
    send({ type: "checked", id: message.id, problems: check(message.text, message.format) })
  else if (message.type === "run") run(message)
  else if (message.type === "abort") attempts.get(message.id)?.abort(message.reason)
  else if (message.type === "answer") {
    questions.get(message.number)?.(message.answer)
    questions.delete(message.number)
  } else places.get(message.id)?.()
})

async function load(modules: readonly string[], location: string | null): Promise<void> {
  const { allowPrivateAddresses } = workerSettings()
  const artifacts = sharedArtifacts({ location, settings: artifactSettings(), allowPrivateAddresses })
  runner = new TaskRunner({ handlers, log, logs, capturesConsole: true, artifacts })
  try {
    for (const module of modules) handlers.addAll(await loadHandlers(module))
    const clash = handlers.names().find(name => builtinSpecs.some(spec => spec.name === name))
    if (clash !== undefined)
      throw new UmbraError(
        "E602",
        `"${clash}" is the name of a built-in handler. Give the handler another name.`,
      )
    const loaded = handlers.names().map((name): LoadedHandler => ({ name, limits: runner.limits(name) }))
    send({ type: "loaded", handlers: loaded })
  } catch (error) {
    const code = error instanceof UmbraError ? error.code : "E602"
    send({ type: "refused", code, message: error instanceof Error ? error.message : String(error) })
  }
}

/** The problems of a workflow, with the schemas of the handlers. */
function check(text: string, format: "json" | "yaml" | undefined) {
  const known = handlers.names().map(name => handlers.get(name)!)
  const catalog = handlerCatalog([...builtinSpecs, ...known])
  return loadWorkflow(text, { handlers: catalog, format }).problems ?? []
}

function run({ id, task, parents }: Extract<ToChild, { type: "run" }>): void {
  const used = () => attempts.get(id)?.used?.()
  const events: AttemptEvents = {
    begun: () => send({ type: "begun", id }),
    started: () => send({ type: "started", id, usage: used() }),
    place: () => {
      send({ type: "place", id })
      return new Promise(resolve => places.set(id, resolve))
    },
    ask: async question => {
      const number = ++asked
      const answer = await new Promise<ArtifactAnswer | null>(resolve => {
        questions.set(number, resolve)
        send({ type: "ask", id, number, question })
      })
      if (answer === null) throw new Error("The engine did not answer: this attempt cannot use artifacts.")
      return answer
    },
    progress: progress => send({ type: "progress", id, progress, usage: used() }),
    preview: data => send({ type: "preview", id, data, usage: used() }),
    ended: (outcome, _at, logged) => {
      const usage = used()
      isOver = true
      attempts.delete(id)
      places.delete(id)
      send({ type: "ended", id, outcome, usage, logged })
    },
  }
  let isOver = false
  const attempt = runner.start({ ...task, parents: () => parents }, events)
  if (isOver) return
  attempts.set(id, attempt)
  if (attempt.isLoading !== true) events.begun()
}
