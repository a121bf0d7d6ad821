/** The commands of `umbra jobs` and their options. The code of a command is imported when it runs. */
import { Command, Option } from "commander"
import { run } from "../action.ts"
import * as options from "../input/options.ts"

const { allowDeadLetters, json, privateAddresses } = options
const { withBulk, withJobFilter, withModules, withStore, withTarget } = options

/** Options that choose jobs of a list. */
function withListFilter(command: Command): Command {
  return withJobFilter(command)
    .option("--deleted", "include deleted jobs")
    .option("--owner <name>", "only jobs of this owner, on a folder or a database")
}

export function jobsProgram(): Command {
  const jobs = new Command("jobs").summary("list and show jobs; cancel, retry, fork, delete and signal them")
  const described = (usage: string, summary: string) =>
    jobs
      .command(usage)
      .summary(summary)
      .description(`${summary[0]!.toUpperCase()}${summary.slice(1)}.`)
  const command = (usage: string, summary: string) => withTarget(described(usage, summary))
  const code = () => import("./command.ts")

  withListFilter(command("list", "list jobs, newest first"))
    .option("--limit <count>", "jobs per page", options.upTo(1000), 20)
    .option("--after <job>", "start after this job", options.jobId)
    .addOption(json())
    .action(run(() => import("./list.ts"), "list"))
  withListFilter(command("durations", "draw how long jobs took; by default those of the last 24 hours"))
    .option("--points <count>", "the largest number of points, 20 to 2000", options.upTo(2000), 500)
    .option(
      "--json",
      "print {from, before, points: [{at, duration_ms, status, count, job_id}], jobs, complete}",
    )
    .action(run(() => import("./list.ts"), "durations"))
  command("show <job> [node]", "show a job and its nodes, or a node and its attempts")
    .option(
      "--item <index>",
      "for a node with for_each: the attempts of this item, from 0",
      options.wholeNumber,
    )
    .option("--rendered", "print the node's config as it was rendered, with secrets masked")
    .option("--attempt <number>", "with --rendered: for this attempt (default: the last)", options.count)
    .addOption(json())
    .action(run(() => import("./show.ts"), "show"))
  command("graph <job>", "print a job's graph with the state of every node")
    .addOption(
      new Option("--format <format>", "the output format")
        .choices(["tree", "mermaid", "json"])
        .default("tree"),
    )
    .option("--at <moment>", "at a past moment: the seq of a fact, #INDEX, or a time with its zone")
    .option("--json", "same as --format json")
    .action(run(() => import("./show.ts"), "graph"))
  command("items <job> <node>", "list the items of a node with for_each")
    .option("--limit <count>", "items per page", options.upTo(1000), 100)
    .option("--after <index>", "start after this item", options.wholeNumber)
    .option("--at <moment>", "at a past moment, as for `jobs graph`")
    .addOption(json())
    .action(run(() => import("./list.ts"), "items"))
  command("events <job>", "print all events of a job")
    .option("--json", "print one line of JSON per event")
    .action(run(() => import("./list.ts"), "events"))
  command("diff <a> <b>", "compare two jobs: where they diverge first, and what differs in each node")
    .option("--at-a <moment>", "the first job at a past moment, as for `jobs graph --at`")
    .option("--at-b <moment>", "the second job at a past moment; it may be the same job")
    .addOption(
      options.repeated(
        "--node <node>",
        "compare the outputs of this node value by value, or of `input`; may be repeated",
      ),
    )
    .addOption(json())
    .action(run(() => import("./diff.ts"), "diff"))
  withBulk(command("cancel [job]", "cancel a job that has not ended, or all that match a filter"))
    .option("--reason <text>", "the reason; it is stored with the job")
    .addOption(json())
    .action(run(code, "cancel"))
  const retry = withBulk(
    command(
      "retry [job]",
      "retry a job that failed, expired or was cancelled, or all that match a filter; completed nodes do not run again",
    ),
  ).option(
    "--wait",
    "wait until the job has ended; its nodes run in this process unless a server or another engine has it",
  )
  withModules(retry)
    .addOption(privateAddresses())
    .addOption(allowDeadLetters())
    .addOption(json())
    .action(run(code, "retry"))
  const fork = withBulk(
    command("fork", "fork all jobs that match a filter; `umbra fork JOB` forks one and has more options"),
  ).option("--to <name>", "another version of the workflow, for example order@4")
  withModules(options.withFork(fork))
    .addOption(json())
    .action(run(() => import("./bulk.ts"), "fork"))
  withBulk(command("delete [job]", "hide a job that has ended or not started, or all that match a filter"))
    .addOption(json())
    .action(run(code, "remove"))
  command("signal <job> <name>", "send a signal to a job that waits for it")
    .option("--data <json>", "the signal's data: JSON, @file, or @- for standard input")
    .option("--resume-token <token>", "token from the job's graph; the signal is rejected if it is outdated")
    .addOption(json())
    .action(run(code, "signal"))
  command("pause <job>", "pause a job: nodes that run finish, no new node starts")
    .option("--reason <text>", "the reason; it is stored with the job")
    .addOption(json())
    .action(run(code, "pause"))
  command("resume <job>", "resume a paused job").addOption(json()).action(run(code, "resume"))
  options
    .withStart(
      command("reschedule <job>", "move the start of a job that has not started; --delay 0s: start it now"),
    )
    .addOption(json())
    .action(run(code, "reschedule"))
  command("describe <job>", "change the labels or the note of a job")
    .addOption(new Option("--label <name=value>", "set this label; may be repeated").argParser(options.label))
    .option("--no-labels", "remove all labels that are not given")
    .option("--note <text>", "the new note")
    .option("--no-note", "remove the note")
    .addOption(json())
    .action(run(code, "describe"))
  withStore(described("verify [job]", "compare the folded journal of a job with its projection"))
    .option("--all", "every job of the store")
    .addOption(json())
    .action(run(() => import("../commands/db.ts"), "verify"))
  return jobs
}
