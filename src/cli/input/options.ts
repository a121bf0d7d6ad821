/** Options that several commands share, and their parsers. Imports nothing that is slow to load. */
import { type Command, InvalidArgumentError, Option } from "commander"
import { type JobStatus, jobStatuses } from "../../core/states.ts"
import { type Role, roleNames, rolesTable } from "../../roles.ts"

export const json = (): Option => new Option("--json", "print JSON")
export const owner = (): Option =>
  new Option("--owner <name>", "the owner, on a folder or a database (default: local)")
export const since = (): Option =>
  new Option("--since <time>", "how far back: 90m, 24h, 7d").argParser(duration).default(24 * 3600_000, "24h")
export const privateAddresses = (): Option =>
  new Option("--allow-private-addresses", "allow nodes to call private, loopback and link-local addresses")
export const allowDeadLetters = (): Option =>
  new Option("--allow-dead-letters", "exit 0 even if messages of a pipeline failed permanently")

export const repeated = (flags: string, description: string): Option =>
  new Option(flags, description).argParser<string[]>((value, before = []) => [...before, value])

export const handlers = (): Option =>
  repeated(
    "--handlers <module>",
    "a file (TypeScript or JavaScript) or package that exports handlers; may be repeated",
  )
export const adapters = (): Option =>
  repeated("--adapters <module>", "a file or package that exports adapters of pipelines; may be repeated")

export function withModules(command: Command): Command {
  return command
    .addOption(handlers())
    .addOption(adapters())
    .addOption(
      repeated(
        "--providers <module>",
        "a module that exports providers, or a YAML file of them; may be repeated",
      ),
    )
}

export const roles = (): Option =>
  new Option(
    "--roles <roles>",
    `what this process does: ${roleNames.join(", ")}; several are separated by commas (default: all)`,
  ).argParser<Role[]>(text => rolesTable.roles.read(text) as Role[])

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
    .option("--config <file>", "a YAML file of settings (docs/reference/configuration.md)")
    .addOption(repeated("--set <name=value>", "a setting, for example concurrency=20; may be repeated"))
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
  return withStart(command)
    .option("--input <json>", "the job's input: JSON, @file, or @- for standard input")
    .option("--ttl <seconds>", "the job expires after this time; or never", secondsOrNever)
    .addOption(new Option("--label <name=value>", "a label of the job; may be repeated").argParser(label))
    .option("--idempotency-key <key>", "submitting again with the same key returns the same job")
    .option("--priority <number>", "-1000 to 1000; higher runs first among the owner's jobs", wholeNumber)
}

/** When a job starts. */
export function withStart(command: Command): Command {
  return command
    .option("--start-at <time>", "start the job at this time: 2026-11-15T12:00:00Z", moment)
    .addOption(
      new Option("--delay <duration>", "start the job after this time: 30s, 15m, 2h, 7d")
        .argParser(duration)
        .conflicts("startAt"),
    )
}

/** Which jobs: the filter of `GET /jobs`. */
export function withJobFilter(command: Command): Command {
  return command
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
    .option("--fingerprint <text>", "only jobs whose error has this fingerprint")
    .option(
      "--error-text <words>",
      "only jobs whose error message has these words; numbers and ids do not count",
    )
    .option("--min-duration <seconds>", "only jobs that have ended and took at least this long", seconds)
    .option("--created-from <time>", "only jobs created at this time or later: 2026-11-15T12:00:00Z", moment)
    .option("--created-before <time>", "only jobs created before this time", moment)
    .addOption(
      new Option("--since <duration>", "only jobs created within this time: 30m, 2h, 7d")
        .argParser(duration)
        .conflicts("createdFrom"),
    )
    .option("--parent <job>", "only the children of this job", jobId)
    .option("--top", "only jobs without a parent")
    .option("--forked-from <job>", "only the forks of this job", jobId)
}

/** Options of a command that is for one job, or for all that match a filter. */
export function withBulk(command: Command): Command {
  return withJobFilter(command)
    .option("--dry-run", "with a filter: only count the jobs")
    .option("--rate <number>", "with a filter: jobs per second (default: 100)", amount)
    .option("--detach", "with a filter: print the id of the operation, and do not wait for its end")
    .option(
      "--owner <name>",
      "with a filter, on a folder or a database: the owner of the jobs (default: local)",
    )
}

/** What forks of one job and of many have in common. */
export function withFork(command: Command): Command {
  return command
    .addOption(repeated("--from <node>", "run this node again, with all that depends on it; may be repeated"))
    .option("--definition <file>", "a changed definition (YAML or JSON), stored with the new job only")
    .addOption(repeated("--output <node=json>", "set a node's output without running it; may be repeated"))
    .addOption(repeated("--node-config <node=json>", "another config for a node; may be repeated"))
    .addOption(
      repeated(
        "--confirm <node>",
        "run this node again although its effect is unsafe to repeat; may be repeated",
      ),
    )
    .option("--confirm-unknown", "run nodes again whose handlers do not declare their effects")
}

export function wholeNumber(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new InvalidArgumentError("It must be a whole number.")
  return Number(text)
}

/** A parser of whole numbers. `what`: the bounds, in words. */
const between = (least: number, most: number, what: string) => (text: string) => {
  const n = wholeNumber(text)
  if (n < least || n > most) throw new InvalidArgumentError(`It must be ${what}.`)
  return n
}
export const upTo = (most: number) => between(1, most, `a whole number from 1 to ${most}`)
export const port = between(0, 65_535, "a port, 0 to 65535")
export const count = between(1, Number.POSITIVE_INFINITY, "a whole number above 0")
export const countFrom0 = between(0, Number.POSITIVE_INFINITY, "a whole number, 0 or more")

export function amount(text: string): number {
  const n = Number(text)
  if (!(Number.isFinite(n) && n > 0)) throw new InvalidArgumentError("It must be a number above 0.")
  return n
}

export function seconds(text: string): number {
  const n = Number(text)
  if (text.trim() === "" || !(n >= 0 && Number.isFinite(n)))
    throw new InvalidArgumentError("It must be a number of seconds.")
  return n
}

/** Not null, for which commander would give "". */
export function secondsOrNever(text: string): number | "never" {
  return text === "never" ? text : seconds(text)
}

export function label(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const mark = text.indexOf("=")
  if (mark < 1) throw new InvalidArgumentError("It must be NAME=VALUE.")
  return { ...before, [text.slice(0, mark)]: text.slice(mark + 1) }
}

/** NAME or NAME@VERSION. */
export function workflowVersion(text: string): { readonly name: string; readonly version?: number } {
  const [, name, version] = /^(.+)@(\d{1,9})$/s.exec(text) ?? []
  return name === undefined ? { name: text } : { name, version: Number(version) }
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90m`, `24h`, `7d`, as milliseconds. */
function duration(text: string): number {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  if (amount === undefined)
    throw new InvalidArgumentError("It must be a length of time, such as 30m, 2h or 7d.")
  return Number(amount) * units[unit!]!
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

export const names = (text: string): string[] =>
  text
    .split(",")
    .map(name => name.trim())
    .filter(name => name !== "")

/** A parser of words, separated by commas. `named`: a word in a message. */
const wordsParser =
  <Word extends string>(
    known: readonly Word[],
    named: (word: string) => string,
    read = (word: string) => word,
  ) =>
  (text: string, before: readonly Word[] = []): Word[] => {
    const given = text.split(",").map(word => read(word.trim()) as Word)
    const unknown = given.find(word => !known.includes(word))
    if (unknown !== undefined)
      throw new InvalidArgumentError(`There is no ${named(unknown)}. Use one of ${known.join(", ")}.`)
    return [...before, ...given]
  }
/** `failed,cancelled` */
const statusList = wordsParser(
  jobStatuses,
  status => `status ${status}`,
  word => word.toUpperCase(),
)
export const scopes = ["read", "submit", "manage", "admin"]
export const scopeList = wordsParser(scopes, scope => `scope "${scope}"`)
