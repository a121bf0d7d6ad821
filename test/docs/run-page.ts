/**
 * Runs a page of the documentation as a reader would: it writes the files that the page shows into an empty folder and
 * executes the commands of the page in one shell, in order.
 *
 * 1. A block whose first line is a comment with a file name (`# flow.yaml`, `// handlers.ts`) is that file. Every
 *    YAML, JavaScript and TypeScript block has a name, so that no sample is left out.
 * 2. Every `sh` block is executed; a command that fails, fails the page.
 * 3. A `text` block after an `sh` block shows its output: these lines occur in it, in this order; `…` stands for any text.
 * Blocks in other languages show other products, and are not run.
 */
import { spawn } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { expect } from "vitest"
import { freePort } from "../../scripts/services/port.ts"

const root = resolve(import.meta.dirname, "../..")

export interface PageOptions {
  /** Texts of the page that are different here: addresses of services. */
  readonly replace?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
}

interface Block {
  readonly language: string
  readonly text: string
}

interface Step {
  readonly script: string
  readonly expected: readonly string[]
}

export async function runPage(path: string, { replace = {}, env = {} }: PageOptions = {}): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "umbra-page-"))
  try {
    const texts = { ...(await freePorts()), ...replace }
    const blocks = readBlocks(path).map(({ language, text }) => ({ language, text: replaceAll(text, texts) }))
    writeFiles(folder, path, blocks)
    const steps = readSteps(blocks)
    expect(steps.length, `${path} has commands`).toBeGreaterThan(0)
    const { code, output } = await execute(folder, steps, env)
    const parts = output.split(/^@@\d+\n/m).slice(1)
    expect(code, `${path}:\n${output}`).toBe(0)
    for (const [index, { script, expected }] of steps.entries())
      expectLines(expected, parts[index]!, `${path}, after:\n${script}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function readBlocks(path: string): Block[] {
  const page = readFileSync(join(root, path), "utf8")
  return [...page.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, text]) => ({
    language: language!,
    text: text!,
  }))
}

const nameLine = /^(?:#|\/\/) ([\w.-]+\.(?:yaml|js|ts))\n/

function writeFiles(folder: string, path: string, blocks: readonly Block[]): void {
  for (const { language, text } of blocks.filter(({ language }) => /^(yaml|js|ts)$/.test(language))) {
    const name = nameLine.exec(text)?.[1]
    expect(name, `${path}: a ${language} block needs its file name in the first line:\n${text}`).toBeDefined()
    writeFileSync(join(folder, name!), text)
  }
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }')
  mkdirSync(join(folder, "node_modules/.bin"), { recursive: true })
  symlinkSync(root, join(folder, "node_modules/umbra"))
  for (const name of ["zod", "bullmq"])
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name))
  symlinkSync(join(root, "dist/cli/main.js"), join(folder, "node_modules/.bin/umbra"))
  // The real one would look for a newer release.
  const npx = join(folder, "node_modules/.bin/npx")
  writeFileSync(npx, '#!/bin/sh\nexec "$@"\n')
  chmodSync(npx, 0o755)
}

function readSteps(blocks: readonly Block[]): Step[] {
  return blocks.flatMap(({ language, text }, index) => {
    const next = blocks[index + 1]
    const shown = next?.language === "text" ? next.text : ""
    return language === "sh" ? [{ script: text, expected: shown.split("\n").filter(Boolean) }] : []
  })
}

async function execute(folder: string, steps: readonly Step[], env: NonNullable<PageOptions["env"]>) {
  const script = [
    "set -euo pipefail",
    "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT",
    ...steps.flatMap(({ script }, index) => [`printf '\\n@@%s\\n' ${index}`, script]),
  ]
  const { NO_COLOR: _no, FORCE_COLOR: _force, DATABASE_URL: _url, ...clean } = process.env
  const bin = [join(folder, "node_modules/.bin"), join(root, "node_modules/.bin")]
  const path = [...bin, process.env.PATH].join(":")
  const child = spawn("bash", ["-c", `exec 2>&1\n${script.join("\n")}`], {
    cwd: folder,
    env: { ...clean, ...env, PATH: path },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  })
  const tooLong = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), 200_000)
  let output = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text
  })
  const code = await new Promise<number | null>(done => child.on("close", done))
  clearTimeout(tooLong)
  return { code, output }
}

function expectLines(expected: readonly string[], output: string, after: string): void {
  let rest = output
  for (const line of expected) {
    const pattern = line.trim().split("…").map(escapePattern).join(".*")
    const found = new RegExp(`^\\s*${pattern}\\s*$`, "m").exec(rest)
    expect(found, `${after}\n"${line}" is missing in:\n${output}`).not.toBeNull()
    rest = rest.slice(found!.index + found![0].length)
  }
}

const escapePattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")

/** `7070` and so on in a page are free ports here, also for a server that uses the default. */
async function freePorts(): Promise<Record<string, string>> {
  const ports = await Promise.all([freePort(), freePort(), freePort()])
  const named = Object.fromEntries(ports.map((port, index) => [`707${index}`, String(port)]))
  return { "umbra serve": `umbra serve --port ${ports[0]}`, ...named }
}

function replaceAll(text: string, texts: Readonly<Record<string, string>>): string {
  return Object.entries(texts).reduce((result, [from, to]) => result.replaceAll(from, to), text)
}
