/**
 * `umbra complete -- WORDS…`, which the shell scripts call at each TAB: one line per candidate, a tab, its description.
 * It must be fast and silent: candidates that cannot be found at once are left out, and errors are ignored.
 */
import type { Argument, Command, Option } from "commander"
import { jobStatuses } from "../core/states.ts"
import { isPostgres } from "../journal/location.ts"
import { roleNames } from "../roles.ts"
import { exitCode } from "./exit.ts"
import { scopes } from "./input/options.ts"
import { storeLocation } from "./input/store.ts"
import { printable } from "./output/terminal.ts"
import { openTarget, serverFor, type Target, type TargetOptions } from "./target/open.ts"

const LONGEST_MS = 1500
const MOST = 50

export async function complete(program: Command, given: readonly string[]): Promise<number> {
  const words = rejoined(given)
  const { candidates, known, options } = atCursor(program, words)
  const found = known === null ? [] : await inTime(ask(known, options))
  const current = words.at(-1) ?? ""
  for (const { text, about } of [...candidates, ...found.filter(({ text }) => text.startsWith(current))])
    process.stdout.write(`${text}\t${printable(about)}\n`)
  return exitCode.ok
}

/** Bash splits words at `:` and `=`; this joins an address again. */
function rejoined(words: readonly string[]): string[] {
  const joined: string[] = []
  let glue = false
  for (const word of words) {
    const isMark = word === ":" || word === "="
    if ((isMark || glue) && joined.length > 0) joined[joined.length - 1] += word
    else joined.push(word)
    glue = isMark
  }
  return joined
}

async function inTime(asked: Promise<Candidate[]>): Promise<Candidate[]> {
  const late = new Promise<Candidate[]>(resolve => setTimeout(resolve, LONGEST_MS, []).unref())
  return Promise.race([asked, late]).catch(() => [])
}

async function ask(known: Known, options: TargetOptions): Promise<Candidate[]> {
  // Opening a folder takes a second and locks out other processes.
  const target =
    (await serverFor(options)) ?? (isPostgres(storeLocation(options)) ? await openTarget(options) : null)
  if (target === null) return []
  try {
    return known === "job" ? await jobs(target) : await workflows(target)
  } finally {
    await target.close()
  }
}

async function jobs(target: Target): Promise<Candidate[]> {
  const { jobs: found } = await target.jobs.jobPage({ limit: MOST })
  return found.map(({ job_id, status, workflow }) => ({ text: job_id, about: `${status} ${workflow}` }))
}

async function workflows(target: Target): Promise<Candidate[]> {
  const found: Candidate[] = []
  for await (const { name, version } of target.workflows.list()) {
    // The shell would split a name with spaces.
    if (/^[\w./@-]+$/.test(name)) found.push({ text: name, about: `version ${version}` })
    if (found.length === MOST) break
  }
  return found
}

/** Completion candidates at the cursor, from the declared commands. */
interface Candidate {
  readonly text: string
  readonly about: string
}

/** Values that only the target of the command knows. */
type Known = "job" | "workflow"

interface Cursor {
  readonly candidates: readonly Candidate[]
  /** To be queried, in addition to the candidates. */
  readonly known: Known | null
  /** The words that select the target: `--server URL`, `--data-dir FOLDER`, … */
  readonly options: Readonly<Record<string, string>>
}

/** `words`: all words after `umbra` up to the cursor; the last is the typed part of the current one. */
function atCursor(program: Command, words: readonly string[]): Cursor {
  const current = words.at(-1) ?? ""
  const { command, positions, open, options } = walk(program, words.slice(0, -1))
  const wanted =
    open !== null
      ? listValues(open, current)
      : current.startsWith("-")
        ? { candidates: listOptions(command), known: null }
        : listOperands(command, positions)
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

function listValues(option: Option, current: string): Wanted {
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

function listOptions(command: Command): Candidate[] {
  const help = { text: "--help", about: "show the command's options" }
  const visible = command.options.filter(({ hidden, long }) => !hidden && long)
  return [...visible.map(({ long, description }) => ({ text: long!, about: description })), help]
}

function listOperands(command: Command, positions: number): Wanted {
  const below = command.createHelp().visibleCommands(command)
  if (below.length > 0)
    return { candidates: below.map(one => ({ text: one.name(), about: one.summary() })), known: null }
  const argument: Argument | undefined = command.registeredArguments[positions]
  if (argument?.argChoices !== undefined) return words(argument.argChoices)
  const name = argument?.name()
  const isWorkflow = name === "workflow" || (name === "name" && positions === 0)
  return { candidates: [], known: name === "job" ? "job" : isWorkflow ? "workflow" : null }
}

/** `umbra completion SHELL`: the script that lets a shell call `umbra complete` at each TAB. */
const bash = `# Completion of umbra for bash. To load it in every new shell, add to ~/.bashrc:  source <(umbra completion bash)
_umbra() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _umbra umbra
`

const zsh = `#compdef umbra
# Completion of umbra for zsh. To load it in every new shell, add to ~/.zshrc, behind compinit:  source <(umbra completion zsh)
_umbra() {
  local -a described
  local line
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && described+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#described} )); then
    _describe -V umbra described
  else
    _files
  fi
}
compdef _umbra umbra
`

const fish = `# Completion of umbra for fish. To load it in every new shell:  umbra completion fish > ~/.config/fish/completions/umbra.fish
function __umbra_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (umbra complete -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c umbra -f -a '(__umbra_complete)'
`

const scripts = { bash, zsh, fish }

export async function completion(shell: keyof typeof scripts): Promise<number> {
  process.stdout.write(scripts[shell])
  return exitCode.ok
}
