/** `umbra dev`: API, dashboard, workflows and handlers in one command, reloaded when their files change. */
import { localOwner } from "../../core/facts.ts"
import { jobHasEnded, jobStatuses } from "../../core/states.ts"
import { loadWorkflow } from "../../definition/index.ts"
import type { Problem } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import type { Server } from "../../server/server.ts"
import { openUmbra, type Umbra } from "../../umbra.ts"
import { HandlerProcess } from "../../worker/child/process.ts"
import { ChildRunner } from "../../worker/child/runner.ts"
import { defineHandler } from "../../worker/handler.ts"
import { exitCode } from "../exit.ts"
import { loadAdapters, loadProviders, type Modules, unknownTypeHint } from "../input/modules.ts"
import { readSource, type Source } from "../input/source.ts"
import { type StoreOptions, storeLocation, storeName } from "../input/store.ts"
import { moduleFiles, nextChange, snapshot, workflowFiles } from "../input/watched-files.ts"
import { commandLog } from "../output/log.ts"
import { renderProblems } from "../output/problems.ts"
import { count, paintFor, printable } from "../output/terminal.ts"
import { checkEngineHeartbeat, listenForStop, printStopping, startShutdown } from "../running.ts"
import { inTurn } from "../target/folder-wait.ts"
import { serveStore } from "./serve.ts"

export interface DevOptions extends StoreOptions, Modules {
  readonly port: number
}

/** A process that ended by itself is started again after this time. */
const AGAIN_MS = 1000

export async function dev(files: readonly string[], options: DevOptions): Promise<number> {
  checkEngineHeartbeat()
  const location = storeLocation(options)
  const { log } = commandLog()
  const stop = listenForStop()
  // Modules of --handlers are loaded in their own process alone, so that they can be replaced.
  const { adapters = [], providers = [] } = options
  let runner!: ChildRunner
  const parts = {
    adapters: await loadAdapters({ adapters }),
    providers: await loadProviders({ providers }),
    log,
    runner: (own: ConstructorParameters<typeof ChildRunner>[0]) => {
      runner = new ChildRunner(own)
      return runner
    },
  }
  const umbra = await inTurn(() => openUmbra(location, parts), { isOver: stop.isSignalled })
  const { server, hide } = await serveStore(location, { umbra, host: "127.0.0.1", port: options.port, log })
  const stopping = new AbortController()
  const workshop = new Workshop({ umbra, runner, files, options, signal: stopping.signal })
  say(greeting(server, storeName(location), files, options))
  const watching = workshop.run()
  const signal = await Promise.race([stop.signalled, watching.then(() => null)])
  if (signal !== null) printStopping(signal)
  stopping.abort()
  startShutdown()
  await watching.catch(() => {})
  await server.close()
  await hide()
  await umbra.close()
  return exitCode.ok
}

function greeting(
  { url, isOpen }: Server,
  store: string,
  files: readonly string[],
  { handlers = [] }: Modules,
): string {
  const paint = paintFor(process.stdout)
  const login = isOpen ? "" : " Log in there with an API token."
  const watched = [...files, ...handlers]
  const what =
    watched.length === 0
      ? "Nothing is watched: name workflows, and modules with --handlers."
      : `Watching ${watched.map(printable).join(", ")}.`
  return [
    `Umbra listens on ${url}, with jobs in ${store}. ${url}/docs describes the API.`,
    `${paint.bold("Dashboard:")} ${url}/${login}`,
    `${what} Ctrl-C stops it.`,
  ].join("\n")
}

interface WorkshopParts {
  readonly umbra: Umbra
  readonly runner: ChildRunner
  readonly files: readonly string[]
  readonly options: DevOptions
  readonly signal: AbortSignal
}

/** Keeps what runs equal to the files. */
class Workshop {
  readonly #parts: WorkshopParts
  readonly #modules: readonly string[]
  /** null: no modules were given, or they could not be loaded yet. */
  #process: HandlerProcess | null = null
  readonly #known = new Set<string>()
  /** The last message about each file: the same message is not printed again. */
  readonly #said = new Map<string, string>()

  constructor(parts: WorkshopParts) {
    this.#parts = parts
    this.#modules = parts.options.handlers ?? []
  }

  async run(): Promise<void> {
    const { signal } = this.#parts
    let before = await snapshot(await this.#watched())
    await this.#load()
    await this.#push()
    while (!signal.aborted) {
      const { changed, now } = await nextChange(before, () => this.#watched(), signal)
      if (changed.length === 0) return
      before = now
      const code = new Set(await moduleFiles(this.#modules))
      const workflows = new Set(await workflowFiles(this.#parts.files))
      if (changed.some(file => code.has(file) || !workflows.has(file))) await this.#load()
      await this.#push()
    }
  }

  async #watched(): Promise<string[]> {
    return [...(await workflowFiles(this.#parts.files)), ...(await moduleFiles(this.#modules))]
  }

  /** Starts a process with the modules as they are now. If they cannot be loaded, the one before continues. */
  async #load(): Promise<void> {
    if (this.#modules.length === 0) return
    const { runner, umbra, signal } = this.#parts
    const { log } = commandLog()
    let next: HandlerProcess
    try {
      next = await HandlerProcess.start(this.#modules, log, this.#parts.umbra.artifacts.location)
    } catch (error) {
      if (!(error instanceof UmbraError)) throw error
      const rest = this.#process === null ? "" : " The handlers that were loaded before stay in use."
      complain(`${error.message}${rest}`)
      return
    }
    if (signal.aborted) return void (await next.kill())
    const isFirst = this.#process === null
    this.#process = next
    const moved = runner.use(next)
    const names = [...next.handlers.keys()]
    const added = names.filter(name => !this.#known.has(name))
    for (const name of added) this.#known.add(name)
    umbra.addHandlers(added.map(stub))
    say(
      `${isFirst ? "Loaded" : "Reloaded"} ${count(names.length, "handler")}: ${names.map(printable).join(", ")}.`,
    )
    moved.then(attempts => {
      if (attempts > 0)
        say(
          `${count(attempts, "attempt")} in flight: handed over to the new code; this does not count as an attempt.`,
        )
    })
    next.ended.then(how => this.#ended(next, how))
  }

  #ended(process: HandlerProcess, how: string): void {
    if (this.#process !== process || this.#parts.signal.aborted) return
    complain(`The handler process ended: ${how}. It is restarted.`)
    this.#process = null
    setTimeout(() => {
      if (this.#process === null && !this.#parts.signal.aborted) void this.#load()
    }, AGAIN_MS)
  }

  async #push(): Promise<void> {
    for (const file of await workflowFiles(this.#parts.files)) {
      const text = await this.#pushed(file)
      if (text === this.#said.get(file)) continue
      this.#said.set(file, text)
      if (text !== "") process.stdout.write(text)
    }
  }

  /** The message about the file. */
  async #pushed(file: string): Promise<string> {
    let source: Source | undefined
    try {
      source = await readSource(file)
      const { plan, problems } = await this.#check(source)
      if (plan === undefined) return problemText(source, problems)
      const { umbra } = this.#parts
      const { name, version, unchanged } = await umbra.registrations.registerPlan(plan, localOwner, "local")
      const stay = unchanged ? "" : await this.#staying(name, version)
      return `${printable(file)}: ${printable(name)}@${version} is stored.${stay}\n`
    } catch (error) {
      if (!(error instanceof UmbraError)) throw error
      const problems = (error.details.problems ?? []) as readonly Problem[]
      return source !== undefined && problems.length > 0
        ? problemText(source, problems)
        : `${paintFor(process.stdout).red("✗")} ${printable(file)}: ${printable(error.message)}\n`
    }
  }

  /** Schemas of handlers are known in their process alone. */
  async #check({ text, format }: Source) {
    const { umbra } = this.#parts
    const found = loadWorkflow(text, {
      handlers: umbra.handlers,
      adapters: umbra.adapters,
      format,
    })
    if (found.plan === undefined || found.plan.pipeline !== null || this.#process === null) return found
    const problems = await this.#process.check(text, format)
    return problems.length === 0 ? found : { problems }
  }

  /** Jobs on earlier versions. */
  async #staying(workflow: string, version: number): Promise<string> {
    const statuses = jobStatuses.filter(status => !jobHasEnded(status))
    const page = await this.#parts.umbra.jobPage({ workflow, statuses, limit: 100 })
    // A fork with a definition of its own has no version.
    const staying = page.jobs.map(job => job.workflow_version ?? version).filter(each => each < version)
    if (staying.length === 0) return ""
    const more = page.next === null ? "" : " or more"
    const versions = [...new Set(staying)].sort((a, b) => a - b)
    return ` ${count(staying.length, "running job")}${more} ${staying.length === 1 ? "stays" : "stay"} on version ${versions.join(", ")}.`
  }
}

function problemText({ name, text }: Source, problems: readonly Problem[] = []): string {
  const paint = paintFor(process.stdout)
  return `${renderProblems(problems, { name, text, paint })}${paint.dim(unknownTypeHint(problems))}`
}

/** Stands in the engine's process for a handler of the other one. */
function stub(name: string) {
  return defineHandler({
    name,
    run: () => {
      throw new Error(`The handler ${name} runs in a process of its own.`)
    },
  })
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

function complain(text: string): void {
  process.stdout.write(`${paintFor(process.stdout).red("✗")} ${printable(text)}\n`)
}
