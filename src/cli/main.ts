#!/usr/bin/env node
/**
 * The list of commands. The code of a command is imported when it runs, so `umbra --help` starts as fast as Node itself.
 * A command returns its exit code; an UmbraError that it throws is printed in one line.
 */
import { Console } from "node:console"
import { Argument, Command, CommanderError, Option } from "commander"
import { UmbraError } from "../errors.ts"
import { version } from "../version.ts"
import { exitCode, exitCodeOf } from "./exit.ts"
import {
  adaptersOption,
  allowDeadLettersOption,
  handlersOption,
  privateAddressesOption,
  providersOption,
  seconds,
  withOption,
  withStore,
  withSubmission,
} from "./input/options.ts"
import { jobsProgram } from "./jobs/program.ts"
import { guardStream, printable } from "./output/terminal.ts"
import { dbProgram, secretsProgram, serveProgram, tokenProgram, workerProgram } from "./server-program.ts"
import { targetCommands } from "./target-program.ts"

/** Node's exit code for a process whose main module awaits a promise that never settles. */
const UNSETTLED = 13

const program = new Command("umbra")
  .description("Durable workflows: validate, run and inspect them.")
  .version(version)

program
  .command("validate")
  .summary("check a workflow and show every problem")
  .description(
    "Checks a workflow (YAML or JSON; - reads standard input) and shows every problem. Exit 0 or 2.",
  )
  .argument("<file>", "the workflow")
  .option("--json", "print {valid, errors: [{code, message, path, line, column}]}")
  .addOption(handlersOption())
  .addOption(adaptersOption())
  .addOption(providersOption())
  .action(async (file, options) => finish((await import("./commands/validate.ts")).validate(file, options)))

program
  .command("graph")
  .summary("print a workflow's graph")
  .description("Prints the graph of a workflow (YAML or JSON; - reads standard input).")
  .argument("<file>", "the workflow")
  .addOption(
    new Option("--format <format>", "the output format")
      .choices(["mermaid", "tree", "dot", "json"])
      .default("mermaid"),
  )
  .option("--json", "same as --format json")
  .addOption(handlersOption())
  .addOption(adaptersOption())
  .action(async (file, options) => finish((await import("./commands/graph.ts")).graph(file, options)))

withSubmission(withStore(program.command("run")))
  .summary("run a workflow and show its progress until it has ended")
  .description(
    "Runs a workflow (YAML or JSON; - reads standard input) in this process. Exit 0 if the job COMPLETED, 1 if it " +
      "ended otherwise or messages of a pipeline failed permanently, 2 if the workflow or its input is invalid. Ctrl-C cancels the job.",
  )
  .argument("<file>", "the workflow")
  .addOption(handlersOption())
  .addOption(adaptersOption())
  .addOption(providersOption())
  .addOption(withOption())
  .option("--json", "print only the ended job: {job_id, status, output, error, nodes}")
  .addOption(allowDeadLettersOption())
  .addOption(privateAddressesOption())
  .action(async (file, options) => finish((await import("./commands/run.ts")).run(file, options)))

withStore(program.command("resume"))
  .summary("run the unfinished jobs of a store")
  .description(
    "Runs the unfinished jobs of a store until each has ended or waits for longer than --patience. Exit 0 if all that " +
      "ended are COMPLETED and no message of a pipeline failed permanently, otherwise 1.",
  )
  .addOption(handlersOption())
  .addOption(adaptersOption())
  .addOption(providersOption())
  .option("--patience <seconds>", "wait for timers, retries and polls up to this long", seconds, 60)
  .addOption(allowDeadLettersOption())
  .addOption(privateAddressesOption())
  .option("--json", "print {jobs: [{job_id, workflow, status, left, error}]}")
  .action(async options => finish((await import("./commands/resume.ts")).resume(options)))

program.addCommand(serveProgram(finish))
program.addCommand(workerProgram(finish))
targetCommands(program, finish)
program.addCommand(jobsProgram(finish))
program.addCommand(secretsProgram(finish))
program.addCommand(tokenProgram(finish))
program.addCommand(dbProgram(finish))

program
  .command("completion")
  .summary("print a completion script for your shell")
  .description("Prints a completion script; its first lines explain how to install it.")
  .addArgument(new Argument("<shell>", "which").choices(["bash", "zsh", "fish"]))
  .action(async shell => finish((await import("./completion/scripts.ts")).completion(shell)))

program
  .command("complete", { hidden: true })
  .argument("[words...]")
  .action(async words => finish((await import("./completion/complete.ts")).complete(program, words)))

for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride().showHelpAfterError("(add --help for usage)")

// With --json, standard output is for JSON only: console.log of handler modules goes to standard error.
program.hook("preAction", (_, command) => {
  const { json, format } = command.opts()
  if (json || format === "json") globalThis.console = new Console(process.stderr, process.stderr)
})

async function finish(code: Promise<number>): Promise<void> {
  process.exitCode = await code
}

function codeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.code === "commander.unknownOption" && error.message.includes("'--server'"))
      process.stderr.write(
        "This command needs a folder or a database. With --server use umbra push, submit --wait, watch or jobs.\n",
      )
    return error.exitCode === 0 ? exitCode.ok : exitCode.invalid
  }
  if (!(error instanceof UmbraError)) throw error
  process.stderr.write(`umbra: ${error.code} ${error.message.split("\n").map(printable).join("\n")}\n`)
  return exitCodeOf(error.code)
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
  if (hasFinished || (code !== exitCode.ok && !isUnsettled)) return
  process.exitCode = exitCode.invalid
  process.stderr.write(
    isUnsettled
      ? "umbra: E602 a given module cannot be loaded: it awaits a promise that never settles.\n"
      : "umbra: E602 a given module called process.exit before the command had finished. Remove that call.\n",
  )
})

// `process.exit` calls this at its end. A module that calls it directly would bypass the event "exit".
const { reallyExit } = process as unknown as { reallyExit(code?: number): never }
Object.assign(process, {
  reallyExit(code: number = exitCode.ok): never {
    if (hasFinished || code !== exitCode.ok) return reallyExit.call(process, code)
    // Otherwise Node sets the exit code for an unsettled await.
    process.exitCode = code
    process.emit("exit", code)
    return reallyExit.call(process, exitCode.invalid)
  },
})

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = codeOf(error)
}
hasFinished = true
// A module of handlers may hold timers or connections, which must not keep a finished command alive.
process.stdout.write("", () => process.exit())
