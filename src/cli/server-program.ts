/** `umbra serve`, `umbra worker`, `umbra secrets …`, `umbra token …` and `umbra db …`: the list of their commands. Their code is imported when one runs. */
import { Command, InvalidArgumentError, Option } from "commander"
import {
  adaptersOption,
  handlersOption,
  privateAddressesOption,
  providersOption,
  queuesOption,
  redisOption,
  rolesOption,
  wholeNumber,
  withSettings,
  withStore,
  withTarget,
} from "./input/options.ts"

type Finish = (code: Promise<number>) => Promise<void>

export function serveProgram(finish: Finish): Command {
  return withStore(new Command("serve"))
    .summary("serve the HTTP API, with an engine and a worker")
    .description(
      "Serves the HTTP API and runs jobs in this process until SIGTERM or Ctrl-C. Then it answers the accepted " +
        "requests, hands over unfinished work and ends within 10 s. With --roles, other processes on the same " +
        "PostgreSQL can do part of this.",
    )
    .option(
      "--host <address>",
      "the address to listen on; an address other than loopback needs an API token",
      "127.0.0.1",
    )
    .addOption(rolesOption())
    .option("--port <number>", "the port to listen on; 0 for any free port", port, 7070)
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .addOption(redisOption())
    .addOption(privateAddressesOption())
    .action(async options => finish((await import("./commands/serve.ts")).serve(options)))
}

export function workerProgram(finish: Finish): Command {
  return withSettings(new Command("worker"))
    .summary("run nodes for the engines of a fleet")
    .description(
      "Takes tasks from Redis and runs them in this process until SIGTERM or Ctrl-C. Then it returns the tasks that it " +
        "has not started, waits for the others, and ends within 10 s. It needs no database.",
    )
    .addOption(redisOption())
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .option("--store <id>", "the store to work for, if engines of several use this Redis (UMBRA_STORE)")
    .addOption(queuesOption())
    .option("--concurrency <number>", "tasks that run at the same time", count)
    .option("--prefetch <number>", "tasks that it fetches in advance; 0 for none", countFrom0)
    .option("--port <number>", "serve /health and /ready on this port", port)
    .option("--host <address>", "the address for --port", "127.0.0.1")
    .addOption(privateAddressesOption())
    .action(async options => finish((await import("./commands/worker.ts")).worker(options)))
}

export function dbProgram(finish: Finish): Command {
  const db = new Command("db").summary("check, back up or mark as restored the database of a store")
  withStore(db.command("check"))
    .summary("check the database file and compare every job with its journal")
    .description(
      "On a folder: runs SQLite's integrity_check, then `umbra jobs verify --all`. Another process may use the folder " +
        "meanwhile. On PostgreSQL: only the latter. Exit 0 if no problem was found, otherwise 1.",
    )
    .option("--json", "print {integrity, checked, different: [{job_id, differences}]}")
    .action(async options => finish((await import("./commands/db.ts")).check(options)))
  withStore(db.command("backup <file>"))
    .summary("copy the database of a folder, also while it is in use")
    .description(
      "Copies the database of a folder, in its state at the start of the command, to a new file and syncs it to disk. " +
        "Another process may use the folder meanwhile. An existing file is not replaced.",
    )
    .option("--json", "print {file, bytes}")
    .action(async (file, options) => finish((await import("./commands/db.ts")).backup(file, options)))
  withStore(db.command("restored"))
    .summary("mark a database as restored from a backup")
    .description(
      "Run this after a restore, before an engine starts: processes from before the restore can no longer write to the " +
        "database, whatever partitions they own, and live streams start again. Running it without a restore does no harm.",
    )
    .action(async options => finish((await import("./commands/db.ts")).restored(options)))
  return db
}

export function secretsProgram(finish: Finish): Command {
  const secrets = new Command("secrets").description("Secrets that workflows read: {{ secrets.NAME }}.")
  withSettings(secrets.command("check"))
    .summary("list the secrets that a workflow needs and show which are missing")
    .description(
      "Lists the secrets that a workflow or pipeline reads (YAML or JSON; - reads standard input), and shows which of " +
        "them a worker with this environment and configuration would lack. With --providers it includes the secrets of " +
        "the providers used. Exit 0 if none is missing, 1 if one is missing, 2 if the workflow is invalid.",
    )
    .argument("<file>", "the workflow")
    .option("--owner <name>", "the owner of the jobs (default: local)")
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .option("--json", "print {owner, secrets: [{name, space, used_by, available, message}]}")
    .action(async (file, options) => finish((await import("./commands/secrets.ts")).check(file, options)))
  return secrets
}

export function tokenProgram(finish: Finish): Command {
  const token = new Command("token").summary("create, list and revoke API tokens")
  const json = new Option("--json", "print JSON")
  withTarget(token.command("create"))
    .summary("create a token and show it once")
    .requiredOption("--owner <name>", "the owner whose jobs and workflows it gives access to")
    .addOption(
      new Option("--scope <scopes>", "read, submit, manage or admin; several are separated by commas")
        .argParser(scopeList)
        .makeOptionMandatory(),
    )
    .option("--rate-limit <number>", "requests per second (default: the server's)", amount)
    .option("--max-unfinished-jobs <number>", "unfinished jobs (default: the server's)", count)
    .option("--max-body-bytes <number>", "largest request body (default: the server's)", count)
    .addOption(json)
    .action(async options => finish((await import("./commands/token.ts")).create(options)))
  withTarget(token.command("list"))
    .summary("list tokens, including revoked ones")
    .option("--owner <name>", "only tokens of this owner")
    .addOption(json)
    .action(async options => finish((await import("./commands/token.ts")).list(options)))
  withTarget(token.command("revoke <id>"))
    .summary("revoke a token")
    .addOption(json)
    .action(async (id, options) => finish((await import("./commands/token.ts")).revoke(id, options)))
  return token
}

function port(text: string): number {
  const n = wholeNumber(text)
  if (n < 0 || n > 65_535) throw new InvalidArgumentError("It must be a port, 0 to 65535.")
  return n
}

function amount(text: string): number {
  const n = Number(text)
  if (!(Number.isFinite(n) && n > 0)) throw new InvalidArgumentError("It must be a number above 0.")
  return n
}

function count(text: string): number {
  const n = wholeNumber(text)
  if (n < 1) throw new InvalidArgumentError("It must be a whole number above 0.")
  return n
}

function countFrom0(text: string): number {
  const n = wholeNumber(text)
  if (n < 0) throw new InvalidArgumentError("It must be a whole number, 0 or more.")
  return n
}

export const scopes = ["read", "submit", "manage", "admin"]

function scopeList(text: string, before: readonly string[] = []): string[] {
  const named = text.split(",").map(scope => scope.trim())
  const unknown = named.find(scope => !scopes.includes(scope))
  if (unknown !== undefined)
    throw new InvalidArgumentError(`There is no scope "${unknown}". Use one of ${scopes.join(", ")}.`)
  return [...before, ...named]
}
