/**
 * Writes `dist/ui`, the dashboard: the page with its files, each also compressed, and `report.html`, the page of a replay
 * file with everything inside. Nothing is done if the sources are those of the last build: most commands that build need
 * the dashboard unchanged, and it takes half of the time.
 */
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { brotliCompressSync, constants } from "node:zlib"
import { gzipAsync } from "@gfx/zopfli"

const root = fileURLToPath(new URL("..", import.meta.url))
const output = join(root, "dist", "ui")
const stamp = join(output, ".sources")

const sources = sourcesHash()
if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== sources) await bundle()

async function bundle(): Promise<void> {
  const { build } = await import("vite")
  const configFile = join(root, "ui", "vite.config.ts")
  await build({ configFile, logLevel: "warn" })
  await build({ configFile, logLevel: "warn", mode: "report" })
  inlineReport()
  for (const file of filesIn(output)) if (/\.(js|css|svg)$/.test(file)) await compress(join(output, file))
  writeFileSync(stamp, sources)
}

/** Puts the script and the style of the report into its page. */
function inlineReport(): void {
  const folder = join(output, "report")
  // The worker for large payloads is left out: a file has no address to read from.
  const read = (pattern: RegExp) => {
    const name = readdirSync(join(folder, "assets")).find(file => pattern.test(file))
    if (name === undefined) throw new Error(`The build of the report has no file ${pattern}.`)
    return readFileSync(join(folder, "assets", name), "utf8")
  }
  const script = read(/^report-.*\.js$/).replaceAll("</script", "<\\/script")
  const style = read(/^report-.*\.css$/)
  const page = readFileSync(join(root, "ui", "report.html"), "utf8")
    .replace(/ *<script type="module"[^>]*><\/script>\n/, "")
    .replace("</head>", () => `<style>${style}</style></head>`)
    .replace("</body>", () => `<script type="module">${script}</script></body>`)
  writeFileSync(join(output, "report.html"), page)
  rmSync(folder, { recursive: true })
}

async function compress(file: string): Promise<void> {
  const content = readFileSync(file)
  // 3 % less than zlib at its best, for 3 s of processor time.
  writeFileSync(`${file}.gz`, await gzipAsync(content, {}))
  writeFileSync(
    `${file}.br`,
    brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  )
}

function sourcesHash(): string {
  const hash = createHash("sha256")
  const files = [
    ...["ui", "src/core"].flatMap(folder => filesIn(join(root, folder)).map(file => join(folder, file))),
    ...["src/client/sse.ts", "schema/workflow.schema.json", "scripts/bundle-ui.ts"],
    ...["package.json", "package-lock.json"],
  ]
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest("hex")
}

function filesIn(folder: string): string[] {
  return (readdirSync(folder, { recursive: true }) as string[]).filter(file =>
    statSync(join(folder, file)).isFile(),
  )
}
