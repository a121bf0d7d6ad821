/** What a newcomer copies must compile: every TypeScript sample of the README and the pages, with strict settings. */
import { execFile } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { promisify } from "node:util"
import { afterAll, expect, it } from "vitest"

const root = resolve(import.meta.dirname, "../..")
const folder = mkdtempSync(join(tmpdir(), "umbra-samples-"))
afterAll(() => rmSync(folder, { recursive: true }))

/** Of the package as it is published, if it has been built just before: then the bodies of its functions are not checked again. */
function typesOf(module: string): string {
  return join(root, process.env.UMBRA_TEST_BUILT === "yes" ? `dist/${module}.d.ts` : `src/${module}.ts`)
}

/** What samples take as given. */
const given = `
declare const url: string
declare const job: import("umbra/client").RemoteJob
declare function show(job: unknown): void
declare function mark(node: string, status: string): void
declare function shrink(image: Response, width: number): Promise<Uint8Array>
declare function store(image: Uint8Array, key: string): Promise<{ path: string; bytes: number }>
declare const acmeApi: { start(config: unknown, key: string): Promise<string>; stop(id: string): Promise<void> }
`
/** Their samples go on from one to the next. */
const continued = new Set(["docs/reference/builder.md"])

function samplesOf(page: string): string[] {
  const found = [...readFileSync(join(root, page), "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(
    ([, text]) => text!,
  )
  return continued.has(page) ? [found.join("\n")] : found
}

it("every TypeScript sample compiles", async () => {
  const pages = [
    "README.md",
    ...readdirSync(join(root, "docs"), { recursive: true }).map(name => `docs/${name}`),
  ]
  const samples = pages
    .filter(page => page.endsWith(".md"))
    .flatMap(page => samplesOf(page).map((text, i) => ({ page, i, text })))
  expect(samples.length).toBeGreaterThan(10)
  const names = new Set<string>()
  for (const { page, i, text } of samples) {
    // A sample that others import says its name in its first line.
    const name = /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? `${page.replaceAll("/", "-")}-${i + 1}.ts`
    expect(names, `${page}: another page has a sample of this name`).not.toContain(name)
    names.add(name)
    writeFileSync(join(folder, name), `${text}\nexport {}\n`)
  }
  writeFileSync(join(folder, "given.d.ts"), given)
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }')
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }))
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  const tsc = join(root, "node_modules/.bin/tsc")
  const { stdout } = await promisify(execFile)(tsc, ["-p", folder]).catch(error => error)
  expect(stdout).toBe("")
})

const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  module: "nodenext",
  target: "es2023",
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  types: ["node"],
  paths: {
    umbra: [typesOf("index")],
    "umbra/client": [typesOf("client/index")],
    "umbra/core": [typesOf("core/index")],
    "umbra/testing": [typesOf("testing/index")],
  },
}
