/**
 * The arguments with which Node.js starts a program of the tests: `spawn(process.execPath, [...programArguments(script), …])`. In
 * `npm test` its sources, ours and those of the packages are joined into one file, once in each worker of the tests; threads run
 * the built modules. Loaded one by one, modules of the packages take 0.1 s of processor time more, and from source each process
 * would load a compiler too.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { join, relative, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { buildSync } from "esbuild"

const root = resolve(import.meta.dirname, "../..")
/** Loaded on demand, with files of their own. */
const external = ["@photostructure/sqlite", "jiti", "fastify", "fastify-*", "@fastify/*", "tsx"]
/** Inside the checkout, where the sources find the packages that they import. */
const folder = join(root, "node_modules/.cache/umbra-test")
const joined = new Set<string>()

export function programArguments(script: string): string[] {
  if (process.env.UMBRA_TEST_BUILT !== "yes")
    return script.endsWith(".ts") ? ["--import", "tsx", script] : [script]
  const file = join(folder, `${relative(root, script).replaceAll("/", "-")}.mjs`)
  if (!joined.has(script)) writeWhole(file, joinedSources(script))
  joined.add(script)
  return [file]
}

function joinedSources(script: string): Uint8Array {
  const { outputFiles } = buildSync({
    entryPoints: [script],
    bundle: true,
    write: false,
    external,
    // Packages in the format of CommonJS call it for modules of Node.js.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
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
