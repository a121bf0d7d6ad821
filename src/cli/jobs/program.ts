/** `umbra jobs …`: the list of its commands. Their code is imported when one runs. */
import { Command, Option } from "commander"
import type { JobStatus } from "../../core/states.ts"
import {
  adaptersOption,
  allowDeadLettersOption,
  countFrom1,
  handlersOption,
  jobId,
  label,
  moment,
  privateAddressesOption,
  providersOption,
  seconds,
  statusList,
  wholeNumber,
  withStore,
  withTarget,
  workflowVersion,
} from "../input/options.ts"

type Finish = (code: Promise<number>) => Promise<void>

export function jobsProgram(finish: Finish): Command {
  const jobs = new Command("jobs").summary("list and show jobs; cancel, retry, delete and signal them")
  const json = new Option("--json", "print JSON")
  const described = (usage: string, summary: string) =>
    jobs
      .command(usage)
      .summary(summary)
      .description(`${summary[0]!.toUpperCase()}${summary.slice(1)}.`)
  const command = (usage: string, summary: string) => withTarget(described(usage, summary))

  command("list", "list jobs, newest first")
    .addOption(
      new Option("--status <status>", "only jobs with these states, separated by commas").argParser<
        JobStatus[]
      >(statusList),
    )
    .option("--workflow <name>", "only jobs of this workflow, or of one version: order@3", workflowVersion)
    .addOption(
      new Option("--label <name=value>", "only jobs with this label; may be repeated").argParser(label),
    )
    .option("--error-code <code>", "only jobs with this error, for example E405")
    .option("--fingerprint <text>", "only jobs with the same error as the job that has this fingerprint")
    .option(
      "--error-text <words>",
      "only jobs whose error message has these words; numbers and ids do not count",
    )
    .option("--min-duration <seconds>", "only jobs that have ended and took at least so long", seconds)
    .option("--created-from <time>", "only jobs created at this time or later: 2026-11-15T12:00:00Z", moment)
    .option("--created-before <time>", "only jobs created before this time", moment)
    .option("--parent <job>", "only the children of this job", jobId)
    .option("--top", "only jobs without a parent")
    .option("--limit <count>", "jobs per page", countFrom1, 20)
    .option("--after <job>", "start after this job", jobId)
    .option("--deleted", "include deleted jobs")
    .addOption(new Option("--owner <name>", "only jobs of this owner, on a folder or a database"))
    .addOption(json)
    .action(async options => finish((await import("./list.ts")).list(options)))

  command("show <job> [node]", "show a job and its nodes, or a node and its attempts")
    .option("--item <index>", "for a node with for_each: the attempts of this item, from 0", wholeNumber)
    .addOption(json)
    .action(async (job, node, options) =>
      finish(
        node === undefined
          ? (await import("./show.ts")).show(job, options)
          : (await import("./show-node.ts")).showNode(job, node, options),
      ),
    )

  command("graph <job>", "print a job's graph with the state of every node")
    .addOption(
      new Option("--format <format>", "the output format")
        .choices(["tree", "mermaid", "json"])
        .default("tree"),
    )
    .option("--json", "same as --format json")
    .action(async (job, options) => finish((await import("./graph.ts")).graph(job, options)))

  command("events <job>", "print all events of a job")
    .option("--json", "print one line of JSON per event")
    .action(async (job, options) => finish((await import("./events.ts")).events(job, options)))

  command("cancel <job>", "cancel a job that has not ended")
    .option("--reason <text>", "the reason; it is stored with the job")
    .addOption(json)
    .action(async (job, options) => finish((await import("./command.ts")).cancel(job, options)))

  command(
    "retry <job>",
    "retry a job that failed, expired or was cancelled; completed nodes do not run again",
  )
    .option(
      "--wait",
      "wait until the job has ended; its nodes run in this process unless a server or another engine has it",
    )
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .addOption(privateAddressesOption())
    .addOption(allowDeadLettersOption())
    .addOption(json)
    .action(async (job, options) => finish((await import("./command.ts")).retry(job, options)))

  command("delete <job>", "hide a job that has ended")
    .addOption(json)
    .action(async (job, options) => finish((await import("./command.ts")).remove(job, options)))

  command("signal <job> <name>", "send a signal to a job that waits for it")
    .option("--data <json>", "the signal's data: JSON, @file, or @- for standard input")
    .option("--resume-token <token>", "from the job's graph; rejected if a wait of the job has ended since")
    .addOption(json)
    .action(async (job, name, options) => finish((await import("./command.ts")).signal(job, name, options)))

  withStore(described("verify [job]", "compare the folded journal of a job with its projection"))
    .option("--all", "every job of the store")
    .addOption(json)
    .action(async (job, options) => finish((await import("./verify.ts")).verify(job, options)))

  return jobs
}
