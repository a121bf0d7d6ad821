/**
 * The arguments with which Node.js starts a program of the tests: `spawn(process.execPath, [...programArguments(script), …])`. In
 * `npm test` its sources and ours are joined into one file, once in each worker of the tests; threads run the built modules.
 * From source each process would load a compiler and hundreds of modules, for four times the processor time.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { basename, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { buildSync } from "esbuild"

const root = resolve(import.meta.dirname, "../..")
/** Inside the checkout, where the sources find the packages that they import. */
const folder = join(root, "node_modules/.cache/umbra-test")
const joined = new Set<string>()

export function programArguments(script: string): string[] {
  if (process.env.UMBRA_TEST_BUILT !== "yes") return ["--import", "tsx", script]
  const file = join(folder, `${basename(script, ".ts")}.mjs`)
  if (!joined.has(script)) writeWhole(file, joinedSources(script))
  joined.add(script)
  return [file]
}

function joinedSources(script: string): Uint8Array {
  const { outputFiles } = buildSync({
    entryPoints: [script],
    bundle: true,
    write: false,
    packages: "external",
    format: "esm",
    platform: "node",
    target: "node20.19",
    // Modules of threads and package.json are found from here.
    define: { "import.meta.url": JSON.stringify(pathToFileURL(join(root, "dist/index.js")).href) },
  })
  return outputFiles[0]!.contents
}

/** Another worker may start the same program meanwhile. */
function writeWhole(file: string, content: Uint8Array): void {
  mkdirSync(folder, { recursive: true })
  const unfinished = `${file}.${process.pid}`
  writeFileSync(unfinished, content)
  renameSync(unfinished, file)
}
