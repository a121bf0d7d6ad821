/**
 * `umbra` of umbra.ts for tests to which the process does not matter: commands run one after another in one process, which
 * all test files of a worker share. A command takes a tenth of the time that way, since starting a process and loading the
 * program takes nearly all of it. Not for signals, for modules that end or change their process, nor for commands that wait
 * for another.
 */
import { type ChildProcess, fork } from "node:child_process"
import { join } from "node:path"
import { cleanEnvironment, type Ended, root, type Start } from "./umbra.ts"

let started: ChildProcess | null = null
const waiting: { resolve(ended: Ended): void; reject(error: Error): void }[] = []

export function umbra(parameters: readonly string[], start: Omit<Start, "main"> = {}): Promise<Ended> {
  const { cwd = process.cwd(), stdin = "", env } = start
  const command = {
    parameters,
    cwd,
    env: { ...cleanEnvironment(), ...env },
    stdin: Buffer.from(stdin).toString("base64"),
  }
  return new Promise((resolve, reject) => {
    started ??= startProcess()
    started.channel?.ref()
    waiting.push({ resolve, reject })
    started.send(command)
  })
}

/** It ends with this process. */
function startProcess(): ChildProcess {
  const child = fork(join(root, "test/cli/command-process.js"), { execArgv: [], stdio: "inherit" })
  child.unref()
  child.on("message", (ended: Ended) => {
    waiting.shift()!.resolve(ended)
    if (waiting.length === 0) child.channel?.unref()
  })
  child.on("exit", code => {
    started = null
    for (const { reject } of waiting.splice(0))
      reject(new Error(`the process of the commands has ended with ${code}`))
  })
  return child
}
