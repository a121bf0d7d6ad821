#!/usr/bin/env node
/**
 * The process of a command. Its code is imported when it runs, so `umbra --help` starts as fast as Node itself.
 * A command returns its exit code; an UmbraError that it throws is printed in one line.
 */
import { Console } from "node:console"
import { CommanderError } from "commander"
import { UmbraError } from "../errors.ts"
import { earlyExit, exitCode, exitCodeFor } from "./exit.ts"
import { guardStream, printable } from "./output/terminal.ts"
import { umbraProgram } from "./program.ts"

/** Node's exit code for a process whose main module awaits a promise that never settles. */
const UNSETTLED = 13

const program = umbraProgram()

for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride().showHelpAfterError("(add --help for usage)")

// With --json, standard output is for JSON only: console.log of handler modules goes to standard error.
program.hook("preAction", (_, command) => {
  const { json, format } = command.opts()
  if (json || format === "json") globalThis.console = new Console(process.stderr, process.stderr)
})

function reportError(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.code === "commander.unknownOption" && error.message.includes("'--server'"))
      process.stderr.write(
        "This command needs a folder or a database. With --server use umbra push, submit --wait, watch or jobs.\n",
      )
    return error.exitCode === 0 ? exitCode.ok : exitCode.invalid
  }
  if (!(error instanceof UmbraError)) throw error
  process.stderr.write(`umbra: ${error.code} ${error.message.split("\n").map(printable).join("\n")}\n`)
  return exitCodeFor(error.code)
}

// A reader that closes the pipe (`umbra graph … | head`) is not an error, and a job that runs here continues without it.
for (const stream of [process.stdout, process.stderr]) {
  guardStream(stream)
  stream.on("error", error => {
    if ((error as NodeJS.ErrnoException).code !== "EPIPE") throw error
  })
}

let hasFinished = false

// A loaded module may end the process before the command has finished: by awaiting a promise that never settles, which
// ends Node without a message, or with process.exit(0), which would look like success.
process.once("exit", code => {
  const isUnsettled = process.exitCode === UNSETTLED
  if (hasFinished || !(isReported(code) || isUnsettled)) return
  process.exitCode = exitCode.invalid
  earlyExit.report(
    isUnsettled
      ? "a given module cannot be loaded: it awaits a promise that never settles."
      : code === exitCode.ok
        ? "a given module called process.exit before the command had finished. Remove that call."
        : `a given module ended the process with exit code ${code} before the command had finished.`,
  )
})

function isReported(code: number): boolean {
  return code === exitCode.ok || earlyExit.isAnyCodeReported
}

// `process.exit` calls this at its end. A module that calls it directly would bypass the event "exit".
const { reallyExit } = process as unknown as { reallyExit(code?: number): never }
Object.assign(process, {
  reallyExit(code: number = exitCode.ok): never {
    if (hasFinished || !isReported(code)) return reallyExit.call(process, code)
    // Otherwise Node sets the exit code for an unsettled await.
    process.exitCode = code
    process.emit("exit", code)
    return reallyExit.call(process, exitCode.invalid)
  },
})

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = reportError(error)
}
hasFinished = true
// A module of handlers may hold timers or connections, which must not keep a finished command alive.
process.stdout.write("", () => process.exit())
