/** The commands and their options. The code of a command is imported when it runs. */
import { Argument, Command, Option } from "commander"
import { version } from "../version.ts"
import { declareCommands, run } from "./action.ts"
import { artifactsProgram } from "./artifacts/program.ts"
import * as options from "./input/options.ts"
import { jobsProgram } from "./jobs/program.ts"
import { pipelineCommands } from "./pipelines/program.ts"
import { scheduleProgram } from "./schedules/program.ts"

const { allowDeadLetters, json, owner, privateAddresses } = options
const { withModules, withSettings, withStore, withSubmission, withTarget } = options
const redis = () =>
  new Option("--redis-url <url>", "the Redis of the fleet, redis://HOST:PORT (variable UMBRA_REDIS_URL)")

export function umbraProgram(): Command {
  const program = new Command("umbra")
    .description("Durable workflows: validate, run and inspect them.")
    .version(version)
  documentCommands(program)
  runningCommands(program)
  targetCommands(program)
  pipelineCommands(program)
  program
    .addCommand(workflowsProgram())
    .addCommand(aliasProgram())
    .addCommand(scheduleProgram())
    .addCommand(artifactsProgram())
    .addCommand(jobsProgram())
  program.addCommand(bulkProgram())
  program.addCommand(secretsProgram()).addCommand(tokenProgram()).addCommand(dbProgram())
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description("Prints a completion script; its first lines explain how to install it.")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .action(run(() => import("./completion.ts"), "completion"))
  program
    .command("complete", { hidden: true })
    .argument("[words...]")
    .action(async words => {
      process.exitCode = await (await import("./completion.ts")).complete(program, words)
    })
  return program
}

function documentCommands(program: Command): void {
  const validate = program
    .command("validate")
    .summary("check a workflow and show every problem")
    .description(
      "Checks a workflow (YAML or JSON; - reads standard input) and shows every problem. Exit 0 or 2.",
    )
    .argument("<file>", "the workflow")
    .option("--json", "print {valid, errors: [{code, message, path, line, column}]}")
  withModules(validate).action(run(() => import("./commands/validate.ts"), "validate"))

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
    .addOption(options.handlers())
    .addOption(options.adapters())
    .action(run(() => import("./commands/validate.ts"), "graph"))
}

function runningCommands(program: Command): void {
  const runs = withSubmission(withStore(program.command("run")))
    .summary("run a workflow and show its progress until it has ended")
    .description(
      "Runs a workflow (YAML or JSON; - reads standard input) in this process. Exit 0 if the job COMPLETED, 1 if it " +
        "ended otherwise or messages of a pipeline failed permanently, 2 if the workflow or its input is invalid. Ctrl-C cancels the job.",
    )
    .argument("<file>", "the workflow")
  withModules(runs)
    .addOption(
      options.repeated(
        "--with <file>",
        "a workflow that its nodes run, stored before the job starts; may be repeated",
      ),
    )
    .option("--json", "print only the ended job: {job_id, status, output, error, nodes}")
    .addOption(allowDeadLetters())
    .addOption(privateAddresses())
    .action(run(() => import("./commands/run.ts"), "run"))

  const resume = withStore(program.command("resume"))
    .summary("run the unfinished jobs of a store")
    .description(
      "Runs the unfinished jobs of a store until each has ended or waits for longer than --patience. Exit 0 if all that " +
        "ended are COMPLETED and no message of a pipeline failed permanently, otherwise 1.",
    )
  withModules(resume)
    .option("--patience <seconds>", "wait for timers, retries and polls up to this long", options.seconds, 60)
    .addOption(allowDeadLetters())
    .addOption(privateAddresses())
    .option("--json", "print {jobs: [{job_id, workflow, status, left, error}]}")
    .action(run(() => import("./commands/resume.ts"), "resume"))

  const serve = withStore(program.command("serve"))
    .summary("serve the HTTP API, with an engine and a worker")
    .description(
      "Serves the HTTP API and runs jobs in this process until SIGTERM or Ctrl-C. Then it answers the accepted " +
        "requests, hands over unfinished work and ends within 10 s. With --roles it does only a part of this, and other " +
        "processes on the same PostgreSQL do the rest.",
    )
    .option(
      "--host <address>",
      "the address to listen on; an address other than loopback needs an API token",
      "127.0.0.1",
    )
    .addOption(options.roles())
    .option("--port <number>", "the port to listen on; 0 for any free port", options.port, 7070)
    .option("--base-path <path>", "the prefix that a proxy adds to all paths, such as /umbra")
  withModules(serve)
    .addOption(redis())
    .addOption(privateAddresses())
    .action(run(() => import("./commands/serve.ts"), "serve"))

  const dev = withStore(program.command("dev"))
    .summary("serve API and dashboard, and reload workflows and handlers when their files change")
    .description(
      "Serves the API and the dashboard on this machine, stores the workflows, and watches the files until Ctrl-C. A changed " +
        "workflow becomes a new version; running jobs stay on theirs. Handlers run in a process of their own, which is " +
        "replaced when a file beside their modules changes: attempts in flight are handed over to the new one, which does not count as an attempt.",
    )
    .argument("[files...]", "workflows, or folders of them (*.yaml, *.yml)")
    .option("--port <number>", "the port to listen on; 0 for any free port", options.port, 7070)
  withModules(dev)
    .addOption(privateAddresses())
    .action(run(() => import("./commands/dev.ts"), "dev"))

  const worker = withSettings(program.command("worker"))
    .summary("run nodes for the engines of a fleet")
    .description(
      "Takes tasks from Redis and runs them in this process until SIGTERM or Ctrl-C. Then it returns the tasks that it " +
        "has not started, waits for the others, and ends within 10 s. It needs no database.",
    )
    .addOption(redis())
  withModules(worker)
    .option("--store <id>", "the store to work for, if engines of several use this Redis (UMBRA_STORE)")
    .addOption(
      new Option("--queues <handlers>", "take tasks of these handlers only, separated by commas").argParser(
        options.names,
      ),
    )
    .option("--concurrency <number>", "tasks that run at the same time", options.count)
    .option("--prefetch <number>", "tasks that it fetches in advance; 0 for none", options.countFrom0)
    .option("--port <number>", "serve /health and /ready on this port", options.port)
    .option("--host <address>", "the address for --port", "127.0.0.1")
    .addOption(privateAddresses())
    .action(run(() => import("./commands/worker.ts"), "worker"))
}

/** On workflows and jobs of a target: a store or a server. */
function targetCommands(program: Command): void {
  withTarget(program.command("push"))
    .summary("store a workflow; changed content becomes a new version")
    .description(
      "Stores a workflow (YAML or JSON; - reads standard input) under its name, or the schedules of a file with `schedules:`. " +
        "Exit 2 if the file is invalid; then nothing is stored.",
    )
    .argument("<file>", "the workflow, or schedules")
    .addOption(options.handlers())
    .addOption(options.adapters())
    .addOption(owner())
    .addOption(json())
    .action(run(() => import("./commands/push.ts"), "push"))

  const submit = withSubmission(withTarget(program.command("submit")))
    .summary("submit a job of a stored workflow")
    .description(
      "Submits a job of a stored workflow and prints its id. With --wait it shows the job until it has ended: exit 0 if " +
        "it COMPLETED and no message of a pipeline failed permanently, otherwise 1.",
    )
    .argument("<workflow>", "name, name@3 or name@stable")
    .option("--wait", "wait until the job has ended; on a folder or a database its nodes run in this process")
  withModules(submit)
    .addOption(privateAddresses())
    .addOption(allowDeadLetters())
    .addOption(owner())
    .addOption(json())
    .action(run(() => import("./commands/submit.ts"), "submit"))

  withTarget(program.command("watch"))
    .summary("show a job, or all jobs, while they run")
    .description(
      "With a job: shows it until it has ended, like `umbra run`; exit 0 if it COMPLETED, otherwise 1. Without a job: " +
        "prints a line per change of any job's state, until Ctrl-C.",
    )
    .argument("[job]", "the job's id")
    .addOption(allowDeadLetters())
    .addOption(owner())
    .option("--json", "print one line of JSON per event")
    .action(run(() => import("./commands/submit.ts"), "watch"))

  const fork = withTarget(program.command("fork"))
    .summary("run a job again, reusing results that are still valid")
    .description(
      "Creates a new job that reuses results of another one: of completed nodes whose inputs have not changed. " +
        "--dry-run shows what would run, and why. Nodes that may repeat effects outside of Umbra must be confirmed.",
    )
    .argument("<job>", "the job's id")
    .option("--input <json>", "another input: JSON, @file, or @- for standard input")
    .option("--workflow <name>", "another version of the workflow, for example order@4")
    .addOption(
      options.repeated("--items <node=indexes>", "run only these items again: resize=0,3; may be repeated"),
    )
    .addOption(
      options.repeated(
        "--reuse <node>",
        "keep this node's result although the input changed; may be repeated",
      ),
    )
    .option("--idempotency-key <key>", "forking again with the same key returns the same job")
    .option("--dry-run", "show what the fork would do, and do nothing")
    .option("--wait", "wait until the new job has ended, like `umbra submit --wait`")
  withModules(options.withFork(fork))
    .addOption(privateAddresses())
    .addOption(owner())
    .addOption(json())
    .action(run(() => import("./commands/fork.ts"), "fork"))

  withTarget(program.command("replay"))
    .summary("replay a job in the terminal, fact by fact")
    .description(
      "Shows the tree of a job's nodes as it was after each of its facts; idle time is shortened. Keys: left and right " +
        "for the previous and the next fact, [ and ] for failures, space to play or pause, q to quit. Without a terminal " +
        "it prints the steps.",
    )
    .argument("<job>", "the job's id")
    .option("--speed <factor>", "how many times faster than the job ran", options.amount, 10)
    .option("--step", "begin paused; keys show the next fact")
    .action(run(() => import("./commands/replay.ts"), "replay"))

  withTarget(program.command("stats"))
    .summary("show durations, usage and failures of a workflow's jobs")
    .description(
      "Shows percentiles of run times and waits, failures, attempts and usage of a workflow and its nodes, of jobs that " +
        "ended in the last 24 hours or since --since. It counts whole hours; jobs that ended in the last minute may be missing.",
    )
    .argument("<workflow>", "name, or name@3 for one version", options.workflowVersion)
    .option("--version <number>", "only jobs of this version", options.upTo(2 ** 31 - 1))
    .addOption(options.since())
    .addOption(owner())
    .addOption(json())
    .action(run(() => import("./commands/statistics.ts"), "stats"))

  withTarget(program.command("failures"))
    .summary("group failed jobs by their errors")
    .description(
      "Groups failed jobs whose errors differ only in numbers, ids and quoted texts: how many, since when, and one of them.",
    )
    .option("--workflow <name>", "only jobs of this workflow")
    .addOption(options.since())
    .option("--after <job>", "continue a search that ended early", options.jobId)
    .option("--owner <name>", "only jobs of this owner, on a folder or a database")
    .addOption(json())
    .action(run(() => import("./commands/statistics.ts"), "failures"))

  withTarget(program.command("report"))
    .summary("write a job to one HTML file that replays it")
    .description(
      "Writes the dashboard's page of a job, with the journal of the job inside, to one HTML file of at most 20 MB. It opens " +
        "in a browser without a server and makes no request.",
    )
    .argument("<job>", "the job's id")
    .option("-o, --output <file>", "the file to write (default: umbra-JOB.html)")
    .addOption(
      new Option("--payloads <which>", "inputs and outputs in the file: none, their beginnings, or all")
        .choices(["none", "preview", "full"])
        .default("preview"),
    )
    .addOption(json())
    .action(run(() => import("./commands/report.ts"), "report"))

  withTarget(program.command("why"))
    .summary("show why a job makes no progress, and what would help")
    .description(
      "Explains why a job, or one of its nodes, makes no progress: one sentence, what would help, and the chain of causes.",
    )
    .argument("<job>", "the job's id")
    .argument("[node]", "one of its nodes")
    .option("--at <moment>", "at a past moment: the seq of a fact, #INDEX, or a time with its zone")
    .addOption(json())
    .action(run(() => import("./commands/why.ts"), "why"))

  withTarget(program.command("logs"))
    .summary("show the log lines of a job")
    .description(
      "Prints the log lines of the handlers of a job, or of one of its nodes, interleaved with what the engine did with the nodes.",
    )
    .argument("<job>", "the job's id")
    .argument("[node]", "one of its nodes")
    .option("-f, --follow", "follow new lines until the job has ended")
    .addOption(new Option("--level <level>", "the lowest level").choices(["debug", "info", "warn", "error"]))
    .option("--item <index>", "one item of the node", options.wholeNumber)
    .option("--attempt <number>", "one attempt of the node", options.wholeNumber)
    .addOption(
      new Option("--source <source>", "only what handlers logged, or what the engine did").choices([
        "handler",
        "engine",
      ]),
    )
    .option("--until <time>", "only lines up to this time: 2026-11-15T12:00:00Z", options.moment)
    .option(
      "--tail <number>",
      "print the last lines of handlers; with --follow also new ones",
      options.wholeNumber,
    )
    .addOption(json())
    .action(run(() => import("./jobs/logs.ts"), "logs"))

  withTarget(program.command("waits"))
    .summary("group what jobs wait for by cause")
    .description(
      "Groups the nodes of unfinished jobs that wait for the same provider, handler or signal: how many, since when, what would help.",
    )
    .option("--workflow <name>", "only jobs of this workflow")
    .option("--after <job>", "continue a search that ended early", options.jobId)
    .option("--owner <name>", "only jobs of this owner, on a folder or a database")
    .addOption(json())
    .action(run(() => import("./commands/why.ts"), "waits"))
  withTarget(program.command("capacity"))
    .summary("show workers, engines and providers of a server")
    .description(
      "Shows workers with their load, engines with their partitions, and providers with their slots. It queries a server, with a " +
        "token of the scope admin.",
    )
    .option("--webhooks <provider>", "show this provider's latest webhooks, including rejected ones")
    .addOption(json())
    .action(run(() => import("./commands/capacity.ts"), "capacity"))
}

function workflowsProgram(): Command {
  const workflows = new Command("workflows").summary("list, show, compare, delete and pause stored workflows")
  const command = declareCommands(workflows, () => import("./commands/workflows.ts"))
  command("list", "list workflows by name", "list")
  command("show <name>", "show a workflow: name, or name@3 for one version", "show")
  command("diff <name> <from> <to>", "compare two versions: `workflows diff order 1 2`", "diff")
  command("delete <name>", "delete a workflow; running jobs keep their version", "remove")
  command("pause <name>", "pause a workflow: new jobs are stored and do not begin", "pause").option(
    "--reason <text>",
    "the reason; it is stored with the jobs",
  )
  command("resume <name>", "resume a paused workflow and the jobs that waited", "resume")
  return workflows
}

function aliasProgram(): Command {
  const alias = new Command("alias").summary("point aliases at versions: stable, canary, …")
  const command = declareCommands(alias, () => import("./commands/alias.ts"))
  command("set <name> <alias> <version>", "point an alias at a version, or at several: 2=90,3=10", "set")
  command("list <name>", "list the aliases of a workflow", "list")
  command("delete <name> <alias>", "remove an alias; its history is kept", "remove")
  command("history <name> <alias>", "show the moves of an alias, newest first", "history")
  return alias
}

function bulkProgram(): Command {
  const bulk = new Command("bulk").summary("list, show and abort operations on many jobs")
  const code = () => import("./jobs/bulk.ts")
  const command = declareCommands(bulk, code)
  withTarget(bulk.command("list").summary("list operations, newest first"))
    .addOption(owner())
    .option("--limit <count>", "operations to list", options.upTo(1000), 20)
    .addOption(json())
    .action(run(code, "list"))
  command("show <id>", "show an operation, its progress and what it refused", "show")
  command("abort <id>", "abort an operation; what it has done stays done", "abort")
  return bulk
}

function secretsProgram(): Command {
  const secrets = new Command("secrets").description(
    "check that all secrets of a workflow are set: {{ secrets.NAME }}",
  )
  const check = withSettings(secrets.command("check"))
    .summary("list the secrets that a workflow needs and show which are missing")
    .description(
      "Lists the secrets that a workflow or pipeline reads (YAML or JSON; - reads standard input), and shows which of " +
        "them a worker with this environment and configuration would lack. With --providers it includes the secrets of " +
        "the providers used. Exit 0 if none is missing, 1 if one is missing, 2 if the workflow is invalid.",
    )
    .argument("<file>", "the workflow")
    .option("--owner <name>", "the owner of the jobs (default: local)")
  withModules(check)
    .option("--json", "print {owner, secrets: [{name, space, used_by, available, message}]}")
    .action(run(() => import("./commands/secrets.ts"), "check"))
  return secrets
}

function tokenProgram(): Command {
  const token = new Command("token").summary("create, list and revoke API tokens")
  const code = () => import("./commands/token.ts")
  withTarget(token.command("create"))
    .summary("create a token and show it once")
    .requiredOption("--owner <name>", "the token gives access to this owner's jobs and workflows")
    .addOption(
      new Option("--scope <scopes>", "read, submit, manage or admin; several are separated by commas")
        .argParser(options.scopeList)
        .makeOptionMandatory(),
    )
    .option("--rate-limit <number>", "requests per second (default: the server's)", options.amount)
    .option("--max-unfinished-jobs <number>", "unfinished jobs (default: the server's)", options.count)
    .option("--max-body-bytes <number>", "largest request body (default: the server's)", options.count)
    .addOption(json())
    .action(run(code, "create"))
  withTarget(token.command("list"))
    .summary("list tokens, including revoked ones")
    .option("--owner <name>", "only tokens of this owner")
    .addOption(json())
    .action(run(code, "list"))
  withTarget(token.command("revoke <id>"))
    .summary("revoke a token")
    .addOption(json())
    .action(run(code, "revoke"))
  return token
}

function dbProgram(): Command {
  const db = new Command("db").summary("check, back up or mark as restored the database of a store")
  const code = () => import("./commands/db.ts")
  withStore(db.command("check"))
    .summary("check the database file and compare every job with its journal")
    .description(
      "On a folder: runs SQLite's integrity_check, then `umbra jobs verify --all`. Another process may use the folder " +
        "meanwhile. On PostgreSQL: only the latter. Exit 0 if no problem was found, otherwise 1.",
    )
    .option("--json", "print {integrity, checked, different: [{job_id, differences}]}")
    .action(run(code, "check"))
  withStore(db.command("backup <file>"))
    .summary("copy the database of a folder, also while it is in use")
    .description(
      "Copies the database of a folder, in its state at the start of the command, to a new file and syncs it to disk. " +
        "Another process may use the folder meanwhile. An existing file is not replaced.",
    )
    .option("--json", "print {file, bytes}")
    .action(run(code, "backup"))
  withStore(db.command("restored"))
    .summary("mark a database as restored from a backup")
    .description(
      "Run this after a restore, before an engine starts: processes from before the restore can no longer write to the " +
        "database, whatever partitions they own, and live streams start again. Running it without a restore does no harm.",
    )
    .action(run(code, "restored"))
  return db
}
