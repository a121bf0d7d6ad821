/**
 * Loads a user's handlers from a module, TypeScript or JavaScript: every export that is a handler, and every
 * list of them, including the default export.
 */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { UmbraError } from "../errors.ts"
import { defineHandler, type Handler, type HandlerDefinition, inModule, isHandler } from "./handler.ts"

/** `module` is a file, a `file:` URL, or the name of a package that is installed in the working directory. */
export async function loadHandlers(module: string): Promise<Handler[]> {
  const found = locate(module)
  const exported = listExports(await importModule(module, found))
  const handlers = new Map<unknown, Handler>()
  for (const value of exported) {
    const handler = toHandler(value)
    if (handler !== undefined) handlers.set(value, placed(handler, found))
  }
  if (handlers.size > 0) return [...handlers.values()]
  throw new UmbraError(
    "E602",
    `${module} exports no handler. Export the result of defineHandler({ name, run }), or lists of such results.`,
  )
}

/** Everything that a module exports, with lists flattened. */
export async function exportsIn(module: string): Promise<unknown[]> {
  return listExports(await importModule(module, locate(module)))
}

/** A CommonJS module has all its exports in the default export. */
function listExports(module: Record<string, unknown>): unknown[] {
  const { default: standard } = module
  const more = typeof standard === "object" && standard !== null && !isHandler(standard) ? standard : {}
  return [...Object.values(module), ...Object.values(more)].flat(2)
}

function toHandler(value: unknown): Handler | undefined {
  if (isHandler(value)) return value
  if (typeof value !== "object" || value === null) return undefined
  const { name, run } = value as Partial<Handler>
  if (typeof name !== "string" || typeof run !== "function") return undefined
  return defineHandler(value as HandlerDefinition<undefined, undefined>)
}

/** A thread must load the same module to find the handler. */
function placed(handler: Handler, found: string): Handler {
  if (handler.thread !== true) return handler
  return inModule(handler, existsSync(found) ? pathToFileURL(found).href : found)
}

/** The absolute path of a file, or the package's name. */
function locate(module: string): string {
  const path = module.startsWith("file:") ? fileURLToPath(module) : resolve(module)
  if (existsSync(path)) return path
  if (/^(file:|[./])|\.[cm]?[jt]s$/.test(module)) {
    throw new UmbraError(
      "E602",
      `${module} does not exist. Give a file, or the name of an installed package.`,
    )
  }
  return module
}

async function importModule(module: string, found: string): Promise<Record<string, unknown>> {
  // jiti compiles TypeScript as it loads it, which Node 20 cannot. It is imported only here: it takes 50 ms.
  const { createJiti } = await import("jiti")
  const jiti = createJiti(pathToFileURL(`${process.cwd()}/`).href, { interopDefault: false })
  try {
    return await jiti.import<Record<string, unknown>>(found)
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error)
    if (said.startsWith(`Cannot find module '${found}'`) && found === module)
      throw new UmbraError(
        "E602",
        `${module} is neither a file nor a package that is installed here. Check the path, or install it.`,
        { cause: error },
      )
    // The require stack lists files of the loader.
    const why = said.replace(/\nRequire stack:[\s\S]*/, "").trim()
    throw new UmbraError("E602", `${module} cannot be loaded: ${why}`, { cause: error })
  }
}
