/**
 * Writes the JavaScript of `dist/`. Node.js needs about half a millisecond to load a module, and a command would load
 * hundreds of ours: so they are joined into few files, which all entry points share (docs/decisions/0040), with some
 * packages of many modules (docs/decisions/0076). `tsc` writes the types.
 */
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { threadModules } from "../src/thread.ts"
import { joinedPackages, licencesOf } from "./bundle/joined-packages.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const dist = join(root, "dist")
const entries = ["cli/main", "index", "client/index", "core/index", "testing/index", ...threadModules]

const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: entries.map(entry => `src/${entry}.ts`),
  outbase: "src",
  outdir: dist,
  // Beside dist/index.js: src/thread.ts and src/version.ts find files by their path from the folder of sources.
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  plugins: [joinedPackages],
  format: "esm",
  platform: "node",
  target: "node20.19",
  metafile: true,
  logLevel: "warning",
})

writeFileSync(join(dist, "LICENSES.txt"), licencesOf(root, Object.keys(metafile.inputs)))

// Every entry point imports the file of esbuild's helpers for CommonJS. Browsers load some of these and need no helper.
const helpers = Object.entries(metafile.outputs).find(
  ([, { inputs, exports }]) => Object.keys(inputs).length === 0 && exports.includes("__commonJS"),
)![0]
for (const [file, { entryPoint }] of Object.entries(metafile.outputs)) {
  if (entryPoint === undefined) continue
  const path = join(root, file)
  const text = readFileSync(path, "utf8")
  writeFileSync(path, text.replace(new RegExp(`^import "[./]*${basename(helpers)}";\n`, "m"), ""))
}

// Files of earlier builds: the name of a file depends on its content. The dashboard in ui/ has a build of its own.
const written = new Set(Object.keys(metafile.outputs).map(file => join(root, file)))
for (const file of readdirSync(dist, { recursive: true }) as string[])
  if (file.endsWith(".js") && !file.startsWith("ui/") && !written.has(join(dist, file)))
    rmSync(join(dist, file))
chmodSync(join(dist, "cli/main.js"), 0o755)
