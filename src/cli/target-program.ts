/** Commands on workflows and jobs of a target: a store or a server. Their code is imported when one runs. */
import { Command, Option } from "commander"
import {
  adaptersOption,
  allowDeadLettersOption,
  countFrom1,
  factor,
  handlersOption,
  ownerOption,
  privateAddressesOption,
  providersOption,
  upTo,
  withSubmission,
  withTarget,
} from "./input/options.ts"

type Finish = (code: Promise<number>) => Promise<void>

const json = (): Option => new Option("--json", "print JSON")

export function targetCommands(program: Command, finish: Finish): void {
  withTarget(program.command("push"))
    .summary("store a workflow; changed content becomes a new version")
    .description(
      "Stores a workflow (YAML or JSON; - reads standard input) under its name. Exit 2 if it is invalid; then nothing " +
        "is stored.",
    )
    .argument("<file>", "the workflow")
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(ownerOption())
    .addOption(json())
    .action(async (file, options) => finish((await import("./commands/push.ts")).push(file, options)))

  withSubmission(withTarget(program.command("submit")))
    .summary("submit a job of a stored workflow")
    .description(
      "Submits a job of a stored workflow and prints its id. With --wait it shows the job until it has ended: exit 0 if " +
        "it COMPLETED and no message of a pipeline failed permanently, otherwise 1.",
    )
    .argument("<workflow>", "name, name@3 or name@stable")
    .option("--wait", "wait until the job has ended; on a folder or a database its nodes run in this process")
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .addOption(privateAddressesOption())
    .addOption(allowDeadLettersOption())
    .addOption(ownerOption())
    .addOption(json())
    .action(async (name, options) => finish((await import("./commands/submit.ts")).submit(name, options)))

  withTarget(program.command("watch"))
    .summary("show a job, or all jobs, while they run")
    .description(
      "With a job: shows it until it has ended, like `umbra run`; exit 0 if it COMPLETED, otherwise 1. Without a job: " +
        "prints a line per change of any job's state, until Ctrl-C.",
    )
    .argument("[job]", "the job's id")
    .addOption(allowDeadLettersOption())
    .addOption(ownerOption())
    .option("--json", "print one line of JSON per event")
    .action(async (job, options) => finish((await import("./commands/watch.ts")).watch(job, options)))

  withTarget(program.command("replay"))
    .summary("play the life of a job, fact by fact")
    .description(
      "Plays what the tree of a job's nodes showed after each of its facts; idle time is collapsed. Keys: left and right " +
        "for the previous and the next fact, [ and ] for failures, space to play or pause, q to quit. Without a terminal " +
        "it prints the steps.",
    )
    .argument("<job>", "the job's id")
    .option("--speed <factor>", "how many times faster than it was", factor, 10)
    .option("--step", "begin paused: only keys move it")
    .action(async (job, options) => finish((await import("./commands/replay.ts")).replay(job, options)))

  pipelineCommands(program, finish)
  program.addCommand(workflowsProgram(finish))
  program.addCommand(aliasProgram(finish))
}

function pipelineCommands(program: Command, finish: Finish): void {
  withTarget(program.command("lineage"))
    .summary("show the ancestors and descendants of a message of a pipeline")
    .description(
      "Draws the tree of a message: its ancestors above, its descendants below, and the calls of each adapter.",
    )
    .argument("<job>", "the job's id")
    .argument("<message>", "ROUTE:NUMBER, for example fetch:12")
    .option("--limit <count>", "the largest number of ancestors, and of descendants", countFrom1, 100)
    .addOption(json())
    .action(async (job, message, options) =>
      finish((await import("./commands/lineage.ts")).lineage(job, message, options)),
    )

  withTarget(program.command("dead-letters"))
    .summary("list messages of a pipeline that failed permanently; replay them")
    .description(
      "Lists the dead letters of a job. With --replay a new job of the same pipeline processes all or the named ones " +
        "again, and its id is printed.",
    )
    .argument("<job>", "the job's id")
    .option("--route <name>", "only dead letters of this route")
    .addOption(
      new Option("--limit <count>", "dead letters per page, at most 100").argParser(upTo(100)).default(20),
    )
    .option("--after <message>", "start after this message")
    .option("--replay [message...]", "replay these, or all that have not been replayed")
    .option("--workflow <name>", "with --replay: another version of the pipeline, for example crawl@4")
    .option("--wait", "with --replay: wait until the new job has ended, like `umbra submit --wait`")
    .addOption(adaptersOption())
    .addOption(allowDeadLettersOption())
    .addOption(privateAddressesOption())
    .addOption(json())
    .action(async (job, options) =>
      finish((await import("./commands/dead-letters.ts")).deadLetters(job, options)),
    )
}

function workflowsProgram(finish: Finish): Command {
  const workflows = new Command("workflows").summary("list, show and delete stored workflows")
  const command = (usage: string, summary: string) =>
    withTarget(workflows.command(usage).summary(summary)).addOption(ownerOption()).addOption(json())
  command("list", "list workflows by name").action(async options =>
    finish((await import("./commands/workflows.ts")).list(options)),
  )
  command("show <name>", "show a workflow: name, or name@3 for one version").action(async (name, options) =>
    finish((await import("./commands/workflows.ts")).show(name, options)),
  )
  command("delete <name>", "delete a workflow; running jobs keep their version").action(
    async (name, options) => finish((await import("./commands/workflows.ts")).remove(name, options)),
  )
  return workflows
}

function aliasProgram(finish: Finish): Command {
  const alias = new Command("alias").summary("point aliases at versions: stable, canary, …")
  const command = (usage: string, summary: string) =>
    withTarget(alias.command(usage).summary(summary)).addOption(ownerOption()).addOption(json())
  command("set <name> <alias> <version>", "point an alias at a version, or at several: 2=90,3=10").action(
    async (name, which, version, options) =>
      finish((await import("./commands/alias.ts")).set(name, which, version, options)),
  )
  command("list <name>", "list the aliases of a workflow").action(async (name, options) =>
    finish((await import("./commands/alias.ts")).list(name, options)),
  )
  command("delete <name> <alias>", "remove an alias; its history is kept").action(
    async (name, which, options) =>
      finish((await import("./commands/alias.ts")).remove(name, which, options)),
  )
  command("history <name> <alias>", "show the moves of an alias, newest first").action(
    async (name, which, options) =>
      finish((await import("./commands/alias.ts")).history(name, which, options)),
  )
  return alias
}
