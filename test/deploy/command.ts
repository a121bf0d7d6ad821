/** What the command line takes, as it says itself: for files that start it with flags and variables. */
import { expect } from "vitest"
import { roleNames } from "../../src/roles.ts"
import { umbra } from "../cli/same-process.ts"

interface CommandHelp {
  /** Each option, and whether it takes a value. */
  readonly options: ReadonlyMap<string, boolean>
}

const helps = new Map<string, Promise<CommandHelp>>()

function helpOf(command: string): Promise<CommandHelp> {
  const known = helps.get(command) ?? readHelp(command)
  helps.set(command, known)
  return known
}

async function readHelp(command: string): Promise<CommandHelp> {
  const { code, stdout, stderr } = await umbra([command, "--help"])
  expect(code, `umbra ${command} --help: ${stderr}`).toBe(0)
  const options = [...stdout.matchAll(/^\s+(?:-\w, )?(--[\w-]+)( [<[])?/gm)]
  return { options: new Map(options.map(([, name, value]) => [name!, value !== undefined])) }
}

/** Every flag is one of the command's, and has a value if it needs one. Answers the values. */
export async function mustBeAccepted([command, ...words]: readonly string[]): Promise<Map<string, string>> {
  const { options } = await helpOf(command!)
  const values = new Map<string, string>()
  for (let index = 0; index < words.length; index++) {
    const flag = words[index]!
    expect([...options.keys()], `umbra ${command} ${words.join(" ")}`).toContain(flag)
    if (options.get(flag)) values.set(flag, words[++index]!)
  }
  mustBeRoles(values.get("--roles"))
  return values
}

export function mustBeRoles(text: string | undefined): void {
  for (const role of text?.split(",") ?? []) expect(roleNames).toContain(role)
}

let variables: Promise<readonly string[]> | null = null

/** Names of variables that a process of Umbra reads: a wrong `--set` lists them. */
export function knownVariables(): Promise<readonly string[]> {
  variables ??= umbra(["serve", "--set", "no_such_setting=1"]).then(({ stderr }) =>
    stderr
      .split("lists them: ")[1]!
      .trim()
      .replace(/\.$/, "")
      .split(", ")
      .map(name => `UMBRA_${name.toUpperCase()}`),
  )
  return variables
}
