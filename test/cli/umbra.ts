/** Starts the real command line program, as a user's shell would, and says what came of it. */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"

export const root = resolve(import.meta.dirname, "../..")

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Start {
  /** The program, if not the built one. */
  readonly main?: string
  readonly cwd?: string
  readonly stdin?: string | Buffer
  readonly env?: Readonly<Record<string, string>>
}

export async function umbra(parameters: readonly string[], start: Start = {}): Promise<Ended> {
  return startUmbra(parameters, start).ended
}

export interface Running {
  readonly pid: number
  readonly ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
  /** Resolves when what it has written so far, to either stream, matches: what it found. */
  wrote(pattern: RegExp): Promise<RegExpExecArray>
}

export function startUmbra(parameters: readonly string[], start: Start = {}): Running {
  const { main = join(root, "dist/cli/main.js"), cwd, stdin, env } = start
  const child = spawn(process.execPath, [main, ...parameters], {
    cwd,
    env: { ...cleanEnvironment(), ...env },
  })
  child.stdin.on("error", () => {}) // A program that never reads its input may be gone before it is written.
  child.stdin.end(stdin ?? "")
  const closed = new Promise<number | null>(done => child.on("close", done))
  const written = [listen(child.stdout), listen(child.stderr)] as const
  const ended = closed.then(code => ({ code, stdout: written[0].text, stderr: written[1].text }))
  return {
    pid: child.pid!,
    ended,
    kill: signal => void child.kill(signal),
    wrote: pattern =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = written.map(({ text }) => pattern.exec(text)).find(match => match !== null)
          if (found !== undefined) resolve(found)
        }
        child.stdout.on("data", look)
        child.stderr.on("data", look)
        look()
        ended.then(({ stdout, stderr }) =>
          reject(new Error(`it ended without writing ${pattern}:\n${stdout}${stderr}`)),
        )
      }),
  }
}

/** Ours, without what would change the program's output. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const { NO_COLOR: _no, FORCE_COLOR: _force, DATABASE_URL: _url, ...clean } = process.env
  return clean
}

function listen(stream: NodeJS.ReadableStream): { text: string } {
  const received = { text: "" }
  stream.setEncoding("utf8").on("data", (text: string) => {
    received.text += text
  })
  return received
}

/** A folder of its own with these files in it. */
export function folderWith(files: Readonly<Record<string, string | Buffer>>): {
  path: string
  remove: () => void
} {
  const path = mkdtempSync(join(tmpdir(), "umbra-cli-"))
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
