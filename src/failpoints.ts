/**
 * Named places in the code where a test can kill or stall the process. If not armed, a failpoint is one comparison.
 * `UMBRA_FAILPOINT=append.after:17` kills the process (SIGKILL) when it reaches this failpoint for the 17th time.
 */
export const failpointNames = [
  "append.before",
  "append.after",
  "dispatch.before",
  "dispatch.after",
  "handler.before",
  "handler.after",
  "ack.before",
  "ack.after",
  "recover.before",
  "recover.after",
] as const

/** Only jobs with artifacts reach these. */
export const artifactFailpointNames = ["artifact.written", "artifact.registered"] as const
/** Only sweeps and removals reach these. */
export const sweepFailpointNames = ["artifact.marked", "artifact.removed", "artifact.orphan_removed"] as const

export type Failpoint =
  | (typeof failpointNames)[number]
  | (typeof artifactFailpointNames)[number]
  | (typeof sweepFailpointNames)[number]
  | "output.moved"

let armed: { readonly name: string; left: number; readonly action: () => void } | null = fromEnvironment()

export function failpoint(name: Failpoint): void {
  if (armed === null || armed.name !== name) return
  if (--armed.left > 0) return
  const { action } = armed
  armed = null
  action()
}

/** Runs `action` the `count`th time the failpoint is reached. */
export function armFailpoint(name: Failpoint, count: number, action: () => void): void {
  armed = { name, left: count, action }
}

function fromEnvironment(): typeof armed {
  const setting = process.env.UMBRA_FAILPOINT
  if (!setting) return null
  const [name, count] = setting.split(":")
  return { name: name!, left: Number(count ?? 1), action: () => process.kill(process.pid, "SIGKILL") }
}
