/** The commands of `umbra artifacts` and their options. The code of a command is imported when it runs. */
import { Command } from "commander"
import { declareCommands } from "../action.ts"

export function artifactsProgram(): Command {
  const artifacts = new Command("artifacts").summary("files and other large content that jobs refer to")
  const command = declareCommands(artifacts, () => import("./commands.ts"))
  command("ls", "list artifacts by their hashes", "list").option(
    "--job <id>",
    "only those that this job refers to",
  )
  command("get <hash>", "write the content of an artifact to standard output", "get").option(
    "--output <file>",
    "write it to this file instead",
  )
  command("put <file>", "store a file, and print its reference; - reads standard input", "put")
    .option("--name <name>", "its name (default: that of the file)")
    .option("--type <type>", "its media type (default: application/octet-stream)")
  command("rm <hash>", "remove an artifact; refused while jobs or schedules refer to it", "remove").option(
    "--force",
    "remove it even if it is referenced; reading it then fails",
  )
  command(
    "gc",
    "remove unreferenced artifacts of all owners; engines also do this automatically",
    "collect",
  ).option("--dry-run", "only count it")
  return artifacts
}
