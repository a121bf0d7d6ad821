/** Options that several commands share, and their parsers. Imports nothing that is slow to load. */
import { type Command, InvalidArgumentError, Option } from "commander"
import { type JobStatus, jobStatuses } from "../../core/states.ts"
import { type Role, roleNames, rolesTable } from "../../roles.ts"

const collect = (value: string, before: readonly string[] = []): string[] => [...before, value]

export const handlersOption = (): Option =>
  new Option(
    "--handlers <module>",
    "a file (TypeScript or JavaScript) or package that exports handlers; may be repeated",
  ).argParser<string[]>(collect)

export const adaptersOption = (): Option =>
  new Option(
    "--adapters <module>",
    "a file or package that exports adapters of pipelines; may be repeated",
  ).argParser<string[]>(collect)

export const providersOption = (): Option =>
  new Option(
    "--providers <module>",
    "a module that exports providers, or a YAML file of them; may be repeated",
  ).argParser<string[]>(collect)

export const redisOption = (): Option =>
  new Option("--redis-url <url>", "the Redis of the fleet, redis://HOST:PORT (variable UMBRA_REDIS_URL)")

export const queuesOption = (): Option =>
  new Option("--queues <handlers>", "take tasks of these handlers only, separated by commas").argParser(
    text =>
      text
        .split(",")
        .map(name => name.trim())
        .filter(name => name !== ""),
  )

export const rolesOption = (): Option =>
  new Option(
    "--roles <roles>",
    `what this process does: ${roleNames.join(", ")}; several are separated by commas (default: all)`,
  ).argParser<Role[]>(text => rolesTable.roles.read(text) as Role[])

export const withOption = (): Option =>
  new Option(
    "--with <file>",
    "a workflow that its nodes run, stored before the job starts; may be repeated",
  ).argParser<string[]>(collect)

export const privateAddressesOption = (): Option =>
  new Option("--allow-private-addresses", "allow nodes to call private, loopback and link-local addresses")

export const allowDeadLettersOption = (): Option =>
  new Option("--allow-dead-letters", "exit 0 even if messages of a pipeline failed permanently")

/** Options for the store and for settings. */
export function withStore(command: Command): Command {
  const stored = command
    .addOption(
      new Option("--data-dir <folder>", "the folder of the embedded database (default: ./.umbra)").conflicts(
        "databaseUrl",
      ),
    )
    .option("--database-url <url>", "a PostgreSQL database instead of a folder: postgres://…")
  return withSettings(stored)
}

/** Settings take effect before the command's own code runs. */
export function withSettings(command: Command): Command {
  return command
    .addOption(new Option("--config <file>", "a YAML file of settings (docs/reference/configuration.md)"))
    .addOption(
      new Option("--set <name=value>", "a setting, for example concurrency=20; may be repeated").argParser<
        string[]
      >(collect),
    )
    .hook("preAction", async (_, started) => {
      const { set, config = process.env.UMBRA_CONFIG, allowPrivateAddresses } = started.opts()
      // Reading settings loads all their tables: only if one is changed.
      if (set !== undefined || config || allowPrivateAddresses)
        await (await import("./settings.ts")).applySettings(started.opts())
    })
}

/** Options for a target: a store or a server. */
export function withTarget(command: Command): Command {
  return withStore(command)
    .addOption(
      new Option("--server <url>", "an Umbra server instead: http://… (or UMBRA_SERVER)").conflicts([
        "dataDir",
        "databaseUrl",
      ]),
    )
    .option("--token-file <file>", "the file with the API token for the server (or UMBRA_TOKEN)")
    .option("--verbose", "show which server the command uses")
}

/** Options of a submission. */
export function withSubmission(command: Command): Command {
  return command
    .option("--input <json>", "the job's input: JSON, @file, or @- for standard input")
    .option("--ttl <seconds>", "the job expires after this time; or never", secondsOrNever)
    .addOption(new Option("--label <name=value>", "a label of the job; may be repeated").argParser(label))
    .option("--idempotency-key <key>", "submitting again with the same key returns the same job")
    .option("--priority <number>", "-1000 to 1000; higher runs first among the owner's jobs", wholeNumber)
}

export const ownerOption = (): Option =>
  new Option("--owner <name>", "the owner, on a folder or a database (default: local)")

export function wholeNumber(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new InvalidArgumentError("It must be a whole number.")
  return Number(text)
}

export const countFrom1 = upTo(1000)

export function upTo(most: number): (text: string) => number {
  return text => {
    const n = wholeNumber(text)
    if (n < 1 || n > most) throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`)
    return n
  }
}

export function seconds(text: string): number {
  const n = Number(text)
  if (text.trim() === "" || !(n >= 0 && Number.isFinite(n)))
    throw new InvalidArgumentError("It must be a number of seconds.")
  return n
}

/** null: never. */
function secondsOrNever(text: string): number | null {
  return text === "never" ? null : seconds(text)
}

export function label(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const mark = text.indexOf("=")
  if (mark < 1) throw new InvalidArgumentError("It must be NAME=VALUE.")
  return { ...before, [text.slice(0, mark)]: text.slice(mark + 1) }
}

/** NAME or NAME@VERSION. */
export function workflowVersion(text: string): { readonly name: string; readonly version?: number } {
  const [, name, version] = /^(.+)@(\d{1,9})$/.exec(text) ?? []
  return name === undefined ? { name: text } : { name, version: Number(version) }
}

export function moment(text: string): number {
  const at = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at))
    throw new InvalidArgumentError("It must be a time with its zone, such as 2026-11-15T12:00:00Z.")
  return at
}

export function jobId(text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text))
    throw new InvalidArgumentError("It must be a job's id; `umbra jobs list` shows them.")
  return text
}

/** `failed,cancelled` */
export function statusList(text: string, before: readonly JobStatus[] = []): JobStatus[] {
  const named = text.split(",").map(status => status.trim().toUpperCase() as JobStatus)
  const unknown = named.find(status => !jobStatuses.includes(status))
  if (unknown !== undefined)
    throw new InvalidArgumentError(`There is no status ${unknown}. Use one of ${jobStatuses.join(", ")}.`)
  return [...before, ...named]
}
