/** A copy of the repository in a temporary folder, which holds the mutants: the working tree is never changed. */
import { cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { capture } from "../services/run.ts"
import { instrumented, type Mutant, mutated, SWITCH_FILE, SWITCH_SOURCE } from "./instrument.ts"
import type { Mutation } from "./mutations.ts"

const SYNTAX_ERROR = /^1\d{3}$/
const LEFT_OUT = new Set(["node_modules", ".git", "dist"])

export async function copyRepository(root: string): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "umbra-mutate-")))
  const filter = (path: string) => !LEFT_OUT.has(relative(root, path))
  await cp(root, folder, { recursive: true, filter })
  await symlink(join(root, "node_modules"), join(folder, "node_modules"))
  await writeFile(join(folder, SWITCH_FILE), SWITCH_SOURCE)
  return folder
}

/**
 * Those of the mutations with which their file still compiles: the others are found by the compiler. It compiles all of them
 * together: each mutated file is a neighbour of the original, which everything else imports.
 */
export async function compiling(
  folder: string,
  mutations: readonly Mutation[],
): Promise<readonly Mutation[]> {
  const written: string[] = []
  const write = async (file: string, mark: string, text: string) => {
    const path = file.replace(/\.ts$/, `.${mark}.ts`)
    await writeFile(join(folder, path), text)
    written.push(path)
  }
  const texts = new Map<string, string>()
  for (const [number, mutation] of mutations.entries()) {
    const { file } = mutation
    const text = texts.get(file) ?? (await readFile(join(folder, file), "utf8"))
    // A class with private fields differs from its own copy: what the unchanged copy is refused for does not count.
    if (!texts.has(file)) await write(file, "unchanged", text)
    texts.set(file, text)
    await write(file, `mutation${number}`, mutated(text, mutation))
  }
  const settings = { extends: "./tsconfig.json", include: ["src"] }
  await writeFile(join(folder, "tsconfig.mutate.json"), JSON.stringify(settings))
  const errors = await errorsByFile(folder)
  await Promise.all(written.map(path => rm(join(folder, path), { force: true })))
  const count = (file: string, mark: string) => errors.get(file.replace(/\.ts$/, `.${mark}.ts`)) ?? 0
  return mutations.filter(({ file }, number) => count(file, `mutation${number}`) <= count(file, "unchanged"))
}

/** The compiler's messages. It also fails on purpose here, and writes what it can all the same. */
async function compile(folder: string, config: string): Promise<string> {
  const tsc = join(folder, "node_modules", "typescript", "bin", "tsc")
  const args = [tsc, "-p", config, "--pretty", "false"]
  return capture(process.execPath, args, { cwd: folder }).catch(({ stdout }: { stdout: string }) => stdout)
}

/** Files that cannot be parsed are removed first: while there is one, the compiler checks no types. */
async function errorsByFile(folder: string): Promise<ReadonlyMap<string, number>> {
  const errors = new Map<string, number>()
  for (;;) {
    const messages = await compile(folder, "tsconfig.mutate.json")
    const unparsed = new Set<string>()
    for (const [, file, code] of messages.matchAll(/^(\S+\.ts)\(\d+,\d+\): error TS(\d+)/gm)) {
      errors.set(file!, (errors.get(file!) ?? 0) + 1)
      if (SYNTAX_ERROR.test(code!) && file!.includes(".mutation")) unparsed.add(file!)
    }
    if (unparsed.size === 0) return errors
    await Promise.all([...unparsed].map(file => rm(join(folder, file))))
  }
}

/** Puts the mutants into the sources of the copy, behind their switches. */
export async function putIn(folder: string, mutants: readonly Mutant[]): Promise<void> {
  for (const file of new Set(mutants.map(mutant => mutant.file))) {
    const path = join(folder, file)
    const own = mutants.filter(mutant => mutant.file === file)
    await writeFile(path, instrumented(file, await readFile(path, "utf8"), own))
  }
}

/** Builds `dist/`, for tests that start processes. */
export async function buildCopy(folder: string): Promise<void> {
  await capture("npm", ["run", "--silent", "generate"], { cwd: folder })
  await compile(folder, "tsconfig.build.json")
}
