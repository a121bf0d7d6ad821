/** `umbra capacity`: workers, engines and providers of a server. */
import type { RemoteCapacity } from "../../client/capacity.ts"
import { UmbraError } from "../../errors.ts"
import { print, tableLines } from "../output/print.ts"
import { count, type Paint, paintFor, printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface CapacityOptions extends TargetOptions {
  readonly webhooks?: string
}

export async function capacity(options: CapacityOptions): Promise<number> {
  return withTarget(options, async ({ capacity: asked }) => {
    if (asked === null)
      throw new UmbraError(
        "E604",
        "umbra capacity queries a server, which knows its workers: use --server URL, or the folder of a running server.",
      )
    const paint = paintFor(process.stdout)
    if (options.webhooks !== undefined) {
      const webhooks = await asked.webhooks(options.webhooks)
      return print(options, { webhooks }, () => webhookLines(webhooks))
    }
    const [workers, engines, providers] = await Promise.all([
      asked.workers(),
      asked.engines(),
      asked.providers(),
    ])
    const found = { workers, ...engines, providers }
    return print(options, found, () => capacityLines(found, paint))
  })
}

type Found = Awaited<ReturnType<RemoteCapacity["engines"]>> & {
  readonly workers: Awaited<ReturnType<RemoteCapacity["workers"]>>
  readonly providers: Awaited<ReturnType<RemoteCapacity["providers"]>>
}

function capacityLines({ workers, engines, partitions, unowned, providers }: Found, paint: Paint): string[] {
  return [
    paint.bold(`Workers (${workers.length})`),
    ...table(
      workers.map(({ host, pid, state, running, concurrency, queued, version, last_beat, handlers }) => [
        `${host}:${pid}`,
        state,
        `${running} of ${concurrency} running`,
        `${queued} queued`,
        version,
        last_beat,
        handlers.join(" "),
      ]),
    ),
    paint.bold(`Engines (${engines.length}), ${count(partitions, "partition")}`),
    ...(unowned.length === 0
      ? []
      : [`  ${paint.red(`${count(unowned.length, "partition")} without an owner`)}`]),
    ...table(
      engines.map(({ host, pid, state, partitions, version, last_beat }) => [
        `${host}:${pid}`,
        state,
        count(partitions.length, "partition"),
        version,
        last_beat,
      ]),
    ),
    paint.bold(`Providers (${providers.length})`),
    ...table(
      providers.map(({ name, slots, rate, operations }) => [
        name,
        `${slots.held.length} of ${slots.limit ?? "any number of"} slots held`,
        `${slots.waiting} waiting`,
        rate.limit === null
          ? "no rate"
          : `${(rate.limit * rate.pace).toPrecision(3)} of ${rate.limit} a second`,
        `${operations} unfinished`,
      ]),
    ),
  ]
}

function webhookLines(webhooks: Awaited<ReturnType<RemoteCapacity["webhooks"]>>): string[] {
  if (webhooks.length === 0) return ["No webhook was received."]
  return table(
    webhooks.map(({ received_at, verdict, event_id, external_id, reason }) => [
      received_at,
      verdict,
      event_id ?? "no event id",
      external_id ?? "no operation",
      reason ?? "",
    ]),
  )
}

function table(rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return ["  none"]
  return tableLines(rows.map(row => row.map(printable))).map(line => `  ${line}`)
}
