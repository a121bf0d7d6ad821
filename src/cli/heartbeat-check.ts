/** Rejects a heartbeat interval longer than half of its timeout: live processes would be taken for dead. */
import { redisSettings } from "../broker/redis/settings.ts"
import { engineSettings } from "../engine/settings.ts"
import { UmbraError } from "../errors.ts"

export function checkWorkerPace(): void {
  const { workerBeatSeconds, workerDeadSeconds } = redisSettings()
  mustFit(["worker_beat_seconds", workerBeatSeconds], ["worker_dead_seconds", workerDeadSeconds])
}

export function checkEnginePace(): void {
  const { beatSeconds, leaseSeconds } = engineSettings()
  mustFit(["beat_seconds", beatSeconds], ["lease_seconds", leaseSeconds])
}

type Figure = readonly [name: string, seconds: number]

/** One heartbeat may be late. */
function mustFit([beatName, beat]: Figure, [deathName, death]: Figure): void {
  if (beat > 0 && beat * 2 <= death) return
  throw new UmbraError(
    "E620",
    `The setting ${beatName} (${beat}) must be above 0 and at most half of ${deathName} (${death}); otherwise live processes would be taken for dead. Lower ${beatName} or raise ${deathName}, in all processes.`,
  )
}
