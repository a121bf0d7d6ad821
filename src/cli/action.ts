import type { Command } from "commander"
import { json, owner, withTarget } from "./input/options.ts"

/** Declares commands of a group, all on a target and with --owner and --json. `name`: the function that runs. */
export function declareCommands<M>(group: Command, load: () => Promise<M>) {
  return (usage: string, summary: string, name: keyof M): Command =>
    withTarget(group.command(usage).summary(summary))
      .addOption(owner())
      .addOption(json())
      .action(run(load, name))
}

/** An action that imports the command's code and calls it; what it returns is the exit code. */
export function run<M, Name extends keyof M>(load: () => Promise<M>, name: Name) {
  // The last argument is the command itself.
  return async (...given: unknown[]): Promise<void> => {
    const command = (await load())[name] as (...given: unknown[]) => Promise<number>
    process.exitCode = await command(...given.slice(0, -1))
  }
}
