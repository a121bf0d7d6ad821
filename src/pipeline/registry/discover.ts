/**
 * Finds adapters of installed packages (P6): packages named `umbra-…` or `@scope/umbra-…` whose package.json
 * contains `"umbra": { "adapters": "./adapters.js" }`.
 *
 * Only packages that the project's own package.json names are considered. Loading a module runs it: nobody
 * decided to run a transitive dependency, and a type that appears or vanishes with an update deep in the tree
 * is not reliable.
 */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { exportsIn } from "../../worker/load.ts"
import { type Adapter, type AdapterDefinition, defineAdapter, isAdapter } from "../adapter.ts"

const packageName = /^(@[^/]+\/)?umbra-./
const dependencyLists = [
  "dependencies",
  "optionalDependencies",
  "peerDependencies",
  "devDependencies",
] as const

type Manifest = Readonly<Record<string, unknown>>

interface Declaration {
  readonly package: string
  readonly folder: string
  /** The file and the key in it, for error messages. */
  readonly place: string
  readonly modules: readonly string[]
}

/** `folder` is the working directory; the project is the nearest folder above it that has a package.json. */
export async function discoverAdapters(folder: string): Promise<Adapter[]> {
  const found: Adapter[] = []
  for (const declaration of declarationsFor(resolve(folder))) found.push(...(await loadDeclared(declaration)))
  return found
}

function declarationsFor(folder: string): Declaration[] {
  const project = nearest(folder, "package.json")
  if (project === undefined) return []
  const manifest = readManifest(project)
  const names = new Set(dependencyLists.flatMap(list => Object.keys(record(manifest[list]))))
  return [...names]
    .filter(name => packageName.test(name))
    .sort()
    .flatMap(name => {
      const file = nearest(dirname(project), join("node_modules", name, "package.json"))
      if (file === undefined) return missing(name, project, manifest)
      return declarationIn(name, file)
    })
}

/** Development dependencies are absent where the program is deployed, and optional ones may be. */
function missing(name: string, project: string, manifest: Manifest): [] {
  if (!(name in record(manifest.dependencies)) || name in record(manifest.optionalDependencies)) return []
  throw new UmbraError(
    "E720",
    `${name} is not installed, although ${project} names it among its dependencies. Run npm install, or remove it there.`,
  )
}

function declarationIn(name: string, file: string): Declaration[] {
  const { umbra } = readManifest(file)
  if (umbra === undefined) return []
  const place = `${file}, "umbra.adapters"`
  const given = record(umbra).adapters
  const modules = [given].flat()
  if (given !== undefined && modules.length > 0 && modules.every(module => typeof module === "string")) {
    return [{ package: name, folder: dirname(file), place, modules }]
  }
  if (given === undefined && typeof umbra === "object" && umbra !== null) return []
  throw refusal({ package: name, place }, 'write the path of a module, or a list of them: "./adapters.js".')
}

async function loadDeclared(declaration: Declaration): Promise<Adapter[]> {
  const found = new Map<string, Adapter>()
  for (const module of declaration.modules) {
    for (const adapter of await loadModule(declaration, module)) {
      if (found.has(adapter.type)) {
        throw refusal(declaration, `there are two adapters of type "${adapter.type}". Rename one of them.`)
      }
      found.set(adapter.type, adapter)
    }
  }
  return [...found.values()]
}

async function loadModule(declaration: Declaration, module: string): Promise<Adapter[]> {
  const path = moduleIn(declaration, module)
  const exported = await exportsIn(path).catch(error => {
    const why = (error as Error).message.replace(/\.?$/, ".")
    throw refusal(declaration, `${why} Reinstall or update the package, or tell its author.`, error)
  })
  const adapters = [...new Set(exported)].filter(looksLikeAdapter)
  if (adapters.length === 0) {
    throw refusal(
      declaration,
      `${module} exports no adapter. Export the result of defineAdapter({ type, config, process }), or lists of such results.`,
    )
  }
  return adapters.map(adapter => checked(declaration, adapter))
}

function moduleIn(declaration: Declaration, module: string): string {
  const path = resolve(declaration.folder, module)
  const inside = relative(declaration.folder, path)
  if (inside.startsWith("..")) throw refusal(declaration, `${module} is outside the package.`)
  if (!existsSync(path)) {
    throw refusal(
      declaration,
      `${module} does not exist in the package. Its author must publish it ("files"), or correct the path.`,
    )
  }
  return path
}

/** Checked again even if it has the brand, which may come from another release. */
function checked(declaration: Declaration, adapter: Adapter): Adapter {
  try {
    const definition: unknown = { ...adapter, package: declaration.package }
    return defineAdapter(definition as AdapterDefinition<string, undefined>)
  } catch (error) {
    throw refusal(declaration, (error as Error).message.replace(/^defineAdapter: /, ""), error)
  }
}

function looksLikeAdapter(value: unknown): value is Adapter {
  if (isAdapter(value)) return true
  return typeof value === "object" && value !== null && "type" in value && "process" in value
}

function refusal(
  { package: name, place }: Pick<Declaration, "package" | "place">,
  what: string,
  cause?: unknown,
) {
  return new UmbraError("E720", `The adapters of ${name} cannot be used (${place}): ${what}`, {
    details: { package: name },
    cause,
  })
}

function nearest(folder: string, name: string): string | undefined {
  for (let current = folder; ; current = dirname(current)) {
    const file = join(current, name)
    if (existsSync(file)) return file
    if (current === dirname(current)) return undefined
  }
}

function readManifest(file: string): Manifest {
  try {
    return record(JSON.parse(readFileSync(file, "utf8")))
  } catch (error) {
    throw new UmbraError("E720", `${file} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}

const record = (value: unknown): Manifest =>
  typeof value === "object" && value !== null ? (value as Manifest) : {}

/** Loads a user's adapters from a module: every export that is an adapter, and every list of adapters. */
export async function loadAdapters(module: string): Promise<Adapter[]> {
  const found = [...new Set(await exportsIn(module))].filter(looksLikeAdapter)
  if (found.length > 0) return found.map(adapter => (isAdapter(adapter) ? adapter : defineAdapter(adapter)))
  throw new UmbraError(
    "E720",
    `${module} exports no adapter. Export the result of defineAdapter({ type, config, process }), or lists of such results.`,
  )
}

/** For a module that may export other things too (`--handlers`): the exports that have the adapter brand. */
export async function adaptersIn(module: string): Promise<Adapter[]> {
  return [...new Set((await exportsIn(module)).filter(isAdapter))]
}
