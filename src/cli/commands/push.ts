/** `umbra push FILE`: stores a workflow under its name; changed content becomes a new version; or the schedules of a file. */
import { UmbraClientError } from "../../client/error.ts"
import type { Problem } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { readSource } from "../input/source.ts"
import { print } from "../output/print.ts"
import { reportProblems } from "../output/problems.ts"
import { paintFor, printable } from "../output/terminal.ts"
import { isForSchedules } from "../schedules/file.ts"
import { pushSchedules } from "../schedules/push.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export async function push(file: string, options: TargetOptions): Promise<number> {
  const source = await readSource(file)
  const { name, text } = source
  if (isForSchedules(source)) return pushSchedules(source, options)
  return withTarget(
    options,
    async ({ push: store, name: target, flags }) => {
      const pushed = await store(text).catch((error: unknown) => {
        const problems = collectProblems(error)
        if (problems.length === 0) throw error
        const more = error instanceof UmbraClientError ? error.moreProblems : 0
        const hint = problems.some(({ code }) => code === "E103") ? handlerHint : undefined
        return reportProblems(problems, { name, text, more }, { ...options, hint })
      })
      if (typeof pushed === "number") return pushed
      print(options, pushed, `${line(pushed, target)}\n`)
      if (!options.json && !pushed.unchanged && process.stdout.isTTY)
        process.stdout.write(
          paintFor(process.stdout).dim(`Submit a job: umbra submit ${pushed.name} --input '{…}'${flags}\n`),
        )
      return exitCode.ok
    },
    { make: true },
  )
}

const handlerHint =
  "Load your own handlers and adapters with --handlers MODULE and --adapters MODULE: for a server, with umbra serve; for a folder or a database, with this command.\n"

function line(
  { name, version, unchanged }: { name: string; version: number; unchanged: boolean },
  target: string,
): string {
  const reference = `${printable(name)}@${version}`
  return unchanged
    ? `${reference} already has this content, in ${target}.`
    : `${reference} is stored in ${target}.`
}

/** Problems of a document each have a code and a position. */
function collectProblems(error: unknown): readonly Problem[] {
  const found =
    error instanceof UmbraClientError
      ? error.problems
      : error instanceof UmbraError
        ? ((error.details.problems ?? []) as readonly unknown[])
        : []
  return (found as readonly Problem[]).filter(problem => typeof problem?.code === "string")
}
