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
  withPlace,
  withSettings,
  withStore,
} from "./input/options.ts"

type Finish = (code: Promise<number>) => Promise<void>

export function serveProgram(finish: Finish): Command {
  return withStore(new Command("serve"))
    .summary("serve the HTTP API, with an engine and a worker")
    .description(
      "Serves the HTTP API and runs jobs in this process until SIGTERM or Ctrl-C; then it answers what it has " +
        "accepted, hands over the rest and ends within 10 s. --roles leaves parts of that to other processes on the " +
        "same PostgreSQL.",
    )
    .option(
      "--host <address>",
      "the address to listen on; other than loopback needs an API token",
      "127.0.0.1",
    )
    .addOption(rolesOption())
    .option("--port <number>", "the port to listen on; 0 for any that is free", port, 7070)
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
      "Takes tasks from Redis and runs them in this process until SIGTERM or Ctrl-C; then it gives back what it has " +
        "not begun, lets the rest end, and leaves within 10 s. It needs no database.",
    )
    .addOption(redisOption())
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .option("--store <id>", "the store to work for, if engines of several use this Redis (UMBRA_STORE)")
    .addOption(queuesOption())
    .option("--concurrency <number>", "tasks that run at once", count)
    .option("--prefetch <number>", "tasks that it takes beyond those; 0 for none", countFrom0)
    .option("--port <number>", "serve /health and /ready on this port", port)
    .option("--host <address>", "the address for them", "127.0.0.1")
    .addOption(privateAddressesOption())
    .action(async options => finish((await import("./commands/worker.ts")).worker(options)))
}

export function dbProgram(finish: Finish): Command {
  const db = new Command("db").summary("check the database itself, back it up, say that it was restored")
  withStore(db.command("check"))
    .summary("check the file of a folder and compare every job with its journal")
    .description(
      "On a folder: SQLite's integrity_check, then what `umbra jobs verify --all` does. It may run beside the process that " +
        "has the folder. On PostgreSQL: only the latter. Exit 0 if all is right, 1 if something is not.",
    )
    .option("--json", "print {integrity, checked, different: [{job_id, differences}]}")
    .action(async options => finish((await import("./commands/db.ts")).check(options)))
  withStore(db.command("backup <file>"))
    .summary("copy the database of a folder, also while it is in use")
    .description(
      "Writes the database of a folder, as it is when the command begins, into a new file, which is synced to the disk. It " +
        "may run beside the process that has the folder. A file that is there already is not replaced.",
    )
    .option("--json", "print {file, bytes}")
    .action(async (file, options) => finish((await import("./commands/db.ts")).backup(file, options)))
  withStore(db.command("restored"))
    .summary("say that it was put back from a backup")
    .description(
      "After a restore, before an engine starts: makes sure that no process from before it can write to it any more, " +
        "whatever that process believes to own, and that live streams begin anew. Without need it does no harm.",
    )
    .action(async options => finish((await import("./commands/db.ts")).restored(options)))
  return db
}

export function secretsProgram(finish: Finish): Command {
  const secrets = new Command("secrets").description("Secrets that workflows read: {{ secrets.NAME }}.")
  withSettings(secrets.command("check"))
    .summary("tell which secrets a workflow needs and which are missing")
    .description(
      "Lists the secrets that a workflow or pipeline reads (YAML or JSON; - reads standard input), and which of them a " +
        "worker started with this environment and configuration would lack. With --providers also those of the providers " +
        "that it uses. Exit 0 if none is missing, 1 if one is, 2 if the workflow is invalid.",
    )
    .argument("<file>", "the workflow")
    .option("--owner <name>", "for whose jobs (default: local)")
    .addOption(handlersOption())
    .addOption(adaptersOption())
    .addOption(providersOption())
    .option("--json", "print {owner, secrets: [{name, space, used_by, available, message}]}")
    .action(async (file, options) => finish((await import("./commands/secrets.ts")).check(file, options)))
  return secrets
}

export function tokenProgram(finish: Finish): Command {
  const token = new Command("token").summary("make, list and revoke API tokens")
  const json = new Option("--json", "print JSON")
  withPlace(token.command("create"))
    .summary("make a token and show it, once")
    .requiredOption("--owner <name>", "whose jobs and workflows it opens")
    .addOption(
      new Option("--scope <scopes>", "read, submit, manage or admin; several are separated by commas")
        .argParser(scopeList)
        .makeOptionMandatory(),
    )
    .option("--rate-limit <number>", "requests a second (default: the server's)", amount)
    .option("--max-unfinished-jobs <number>", "its jobs that have not ended (default: the server's)", count)
    .option("--max-body-bytes <number>", "the largest body it may send (default: the server's)", count)
    .addOption(json)
    .action(async options => finish((await import("./commands/token.ts")).create(options)))
  withPlace(token.command("list"))
    .summary("list tokens, revoked ones too")
    .option("--owner <name>", "only this owner's")
    .addOption(json)
    .action(async options => finish((await import("./commands/token.ts")).list(options)))
  withPlace(token.command("revoke <id>"))
    .summary("make a token worthless from the next request on")
    .addOption(json)
    .action(async (id, options) => finish((await import("./commands/token.ts")).revoke(id, options)))
  return token
}

function port(text: string): number {
  const n = wholeNumber(text)
  if (n < 0 || n > 65_535) throw new InvalidArgumentError("It must be a port: 0 to 65535.")
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
    throw new InvalidArgumentError(`There is no scope "${unknown}": it is one of ${scopes.join(", ")}.`)
  return [...before, ...named]
}
