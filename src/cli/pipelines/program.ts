/** The commands for pipelines, and their options. */
import type { Command } from "commander"
import { run } from "../action.ts"
import * as options from "../input/options.ts"

const { allowDeadLetters, json, privateAddresses, repeated, withTarget } = options
const code = () => import("./commands.ts")

export function pipelineCommands(program: Command): void {
  withTarget(program.command("lineage"))
    .summary("show the ancestors and descendants of a message of a pipeline")
    .description(
      "Draws the tree of a message: its ancestors above, its descendants below, and the calls of each adapter.",
    )
    .argument("<job>", "the job's id")
    .argument("<message>", "ROUTE:NUMBER, for example fetch:12")
    .option("--limit <count>", "the largest number of ancestors, and of descendants", options.upTo(1000), 100)
    .option("--depth <steps>", "the largest number of steps from the message", options.upTo(1000))
    .option("--width <count>", "the largest number of messages of one step", options.upTo(1000))
    .option("--from <count>", "skip this many messages (for further pages)", options.countFrom0)
    .addOption(json())
    .action(run(code, "lineage"))

  withTarget(program.command("executions"))
    .summary("list executions of pipelines, newest first")
    .description("Lists the jobs of pipelines, newest first, with the number of their dead letters.")
    .option("--limit <count>", "executions per page, at most 100", options.upTo(100), 20)
    .option("--after <job>", "start after this job")
    .addOption(options.owner())
    .addOption(json())
    .action(run(code, "executions"))

  withTarget(program.command("dead-letters"))
    .summary("list messages of a pipeline that failed permanently; replay them")
    .description(
      "Lists the dead letters of a job; without a job, the jobs that have any. With --replay a new job of the same pipeline " +
        "processes them again (all, or those named); its id is printed.",
    )
    .argument("[job]", "the job's id")
    .option("--route <name>", "only dead letters of this route")
    .option("--limit <count>", "dead letters per page, at most 100", options.upTo(100), 20)
    .option("--after <message>", "start after this message; without a job: after this job")
    .option("--replay [message...]", "replay these, or all that have not been replayed")
    .addOption(
      repeated(
        "--body <message=json>",
        "with --replay: another body for a message, as JSON or @FILE; may be repeated",
      ),
    )
    .option("--workflow <name>", "with --replay: another version of the pipeline, for example crawl@4")
    .option("--wait", "with --replay: wait until the new job has ended, like `umbra submit --wait`")
    .addOption(options.adapters())
    .addOption(allowDeadLetters())
    .addOption(privateAddresses())
    .addOption(json())
    .action(run(code, "deadLetters"))
}
