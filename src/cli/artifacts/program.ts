/** The commands of `umbra artifacts` and their options. The code of a command is imported when it runs. */
import { Command } from "commander"
import { run } from "../action.ts"
import * as options from "../input/options.ts"

const { json, owner, withTarget } = options

export function artifactsProgram(): Command {
  const artifacts = new Command("artifacts").summary("files and other large content that jobs refer to")
  const command = (usage: string, summary: string) =>
    withTarget(artifacts.command(usage).summary(summary)).addOption(owner()).addOption(json())
  const code = () => import("./commands.ts")
  command("ls", "list artifacts by their hashes")
    .option("--job <id>", "only those that this job refers to")
    .action(run(code, "list"))
  command("get <hash>", "write the content of an artifact to standard output")
    .option("--output <file>", "write it to this file instead")
    .action(run(code, "get"))
  command("put <file>", "store a file, and print its reference; - reads standard input")
    .option("--name <name>", "its name (default: that of the file)")
    .option("--type <type>", "its media type (default: application/octet-stream)")
    .action(run(code, "put"))
  command("rm <hash>", "remove an artifact; refused while jobs or schedules refer to it")
    .option("--force", "remove it even if it is referenced; reading it then fails")
    .action(run(code, "remove"))
  command("gc", "remove unreferenced artifacts of all owners; engines also do this automatically")
    .option("--dry-run", "only count it")
    .action(run(code, "collect"))
  return artifacts
}
