/** The commands of `umbra schedule` and their options. The code of a command is imported when it runs. */
import { Command } from "commander"
import { declareCommands } from "../action.ts"
import * as options from "../input/options.ts"

export function scheduleProgram(): Command {
  const schedule = new Command("schedule").summary(
    "start workflows at times: cron with time zones, or every 15m",
  )
  const command = declareCommands(schedule, () => import("./command.ts"))
  command("create <name>", "store a schedule, or change it", "create")
    .requiredOption("--workflow <name>", "the workflow: name, name@3 or name@alias")
    .option(
      "--cron <fields>",
      "minute, hour, day of the month, month, day of the week; or six fields with seconds first",
    )
    .option("--zone <name>", "time zone of --cron, for example Europe/Berlin (default: UTC)")
    .option("--every <period>", "instead of --cron: 30s, 15m, 6h, 1d")
    .option(
      "--input <json>",
      "input of the jobs, as JSON or @FILE; templates read schedule.time and schedule.name",
    )
    .option("--label <name=value>", "a label of the jobs; may be repeated", options.label)
    .option("--priority <number>", "jobs with a higher priority run first", options.wholeNumber)
    .option("--ttl <seconds>", "the jobs expire after this time; or never", options.secondsOrNever)
    .option("--start <time>", "no tick before this time")
    .option("--end <time>", "no tick at or after this time")
    .option("--jitter <seconds>", "each tick fires with a delay of up to this time", options.wholeNumber)
    .option(
      "--overlap <policy>",
      "while the latest job runs: skip, allow, queue_one or cancel_running (default: skip)",
    )
    .option("--catch-up <policy>", "ticks more than a minute late: last, all or none (default: last)")
    .option(
      "--catch-up-seconds <seconds>",
      "a tick that is later than this is dropped (default: 86400)",
      options.wholeNumber,
    )
    .option("--dry-run", "only check it, and print its next ticks")
  command("list", "list schedules by name", "list")
  command("show <name>", "show a schedule, its next ticks and what the last ones did", "show")
  command(
    "ticks <name>",
    "list the ticks of a range: what past ones did, and those that are planned",
    "ticks",
  )
    .requiredOption("--from <time>", "the first tick is not before this time")
    .requiredOption("--to <time>", "all ticks are before this time")
  command("pause <name>", "pause a schedule: ticks that are due while it is paused never fire", "pause")
  command("resume <name>", "resume a paused schedule", "resume")
  command("run <name>", "start a job of the schedule now, and print its id", "start")
  command("backfill <name>", "start a job for each past tick of a range", "backfill")
    .requiredOption("--from <time>", "the first tick is not before this time")
    .requiredOption("--to <time>", "all ticks are before this time, which is not in the future")
    .option("--rate <number>", "jobs per second (default: 100)", options.amount)
    .option("--dry-run", "only count the ticks")
    .option("--detach", "print the id of the bulk operation and do not wait for its end")
  command("delete <name>", "delete a schedule; its jobs stay", "remove")
  return schedule
}
