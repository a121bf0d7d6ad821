/** Completion candidates at the cursor, from the declared commands. */
import type { Argument, Command, Option } from "commander"
import { jobStatuses } from "../../core/states.ts"
import { roleNames } from "../../roles.ts"
import { scopes } from "../input/options.ts"

export interface Candidate {
  readonly text: string
  readonly about: string
}

/** Values that only the target of the command knows. */
export type Known = "job" | "workflow"

export interface Cursor {
  readonly candidates: readonly Candidate[]
  /** To be queried, in addition to the candidates. */
  readonly known: Known | null
  /** The words that select the target: `--server URL`, `--data-dir FOLDER`, … */
  readonly options: Readonly<Record<string, string>>
}

/** `words`: all words after `umbra` up to the cursor; the last is the typed part of the current one. */
export function atCursor(program: Command, words: readonly string[]): Cursor {
  const current = words.at(-1) ?? ""
  const { command, positions, open, options } = walk(program, words.slice(0, -1))
  const wanted =
    open !== null
      ? valuesOf(open, current)
      : current.startsWith("-")
        ? { candidates: optionsOf(command), known: null }
        : operandsOf(command, positions)
  const candidates = wanted.candidates.filter(({ text }) => text.startsWith(current))
  return { candidates, known: wanted.known, options }
}

interface Walk {
  readonly command: Command
  /** Operands before the cursor. */
  readonly positions: number
  /** The option whose value is being typed. */
  readonly open: Option | null
  readonly options: Readonly<Record<string, string>>
}

function walk(program: Command, words: readonly string[]): Walk {
  let command = program
  let positions = 0
  let open: Option | null = null
  const options: Record<string, string> = {}
  for (const word of words) {
    if (open !== null) {
      options[open.attributeName()] = word
      open = null
    } else if (word.startsWith("-")) {
      const found = command.options.find(({ long, short }) => long === word || short === word)
      open = found?.required || found?.optional ? found : null
    } else {
      const below = command.commands.find(one => one.name() === word)
      if (below === undefined) positions++
      else command = below
    }
  }
  return { command, positions, open, options }
}

type Wanted = Pick<Cursor, "candidates" | "known">

const words = (texts: readonly string[]): Wanted => ({
  candidates: texts.map(text => ({ text, about: "" })),
  known: null,
})

/** Options that take several values, separated by commas. */
const lists: Readonly<Record<string, readonly string[]>> = {
  "--status": jobStatuses.map(status => status.toLowerCase()),
  "--scope": scopes,
  "--roles": roleNames,
}

function valuesOf(option: Option, current: string): Wanted {
  if (option.argChoices !== undefined) return words(option.argChoices)
  const list = lists[option.long ?? ""]
  if (list !== undefined) {
    const before = current.slice(0, current.lastIndexOf(",") + 1)
    const taken = before.split(",")
    return words(list.filter(value => !taken.includes(value)).map(value => `${before}${value}`))
  }
  if (option.long === "--workflow") return { candidates: [], known: "workflow" }
  // In other lists --after takes something other than a job.
  return { candidates: [], known: option.flags === "--after <job>" ? "job" : null }
}

function optionsOf(command: Command): Candidate[] {
  const help = { text: "--help", about: "show the command's options" }
  const visible = command.options.filter(({ hidden, long }) => !hidden && long)
  return [...visible.map(({ long, description }) => ({ text: long!, about: description })), help]
}

function operandsOf(command: Command, positions: number): Wanted {
  const below = command.createHelp().visibleCommands(command)
  if (below.length > 0)
    return { candidates: below.map(one => ({ text: one.name(), about: one.summary() })), known: null }
  const argument: Argument | undefined = command.registeredArguments[positions]
  if (argument?.argChoices !== undefined) return words(argument.argChoices)
  const name = argument?.name()
  const isWorkflow = name === "workflow" || (name === "name" && positions === 0)
  return { candidates: [], known: name === "job" ? "job" : isWorkflow ? "workflow" : null }
}
