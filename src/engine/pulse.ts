import type { EngineBeat, Journal, Pulse } from "../journal/port.ts"
import type { Log } from "../log.ts"
import { startThread } from "../thread.ts"
import type { Clock } from "./clock.ts"

/**
 * The beat that says this engine lives, and what comes back with it. On PostgreSQL it is sent from a thread with a
 * connection of its own, so that a long fold in the main thread does not look like death; and only while the main
 * thread makes progress, so that one that hangs does.
 */
export interface PulseParts {
  readonly journal: Journal
  /** Where a thread can open the store again; null: beat from here. */
  readonly location: string | null
  readonly engine: string
  readonly place: string
  readonly beatMs: number
  /** Without progress of the main thread for this long no beat is sent. */
  readonly leaseMs: number
  readonly clock: Clock
  readonly log: Log
  readonly receive: (pulse: Pulse) => void
}

export interface RunningPulse {
  /** From its next beat on the engine says that it follows the others' commits, or that it does not. */
  follow(isFollowing: boolean): void
  stop(): Promise<void>
}

export interface PulseThreadData {
  readonly location: string
  readonly engine: string
  readonly place: string
  readonly beatMs: number
  readonly leaseMs: number
  /** A number that rises while the main thread makes progress, and whether the engine follows (1). */
  readonly shared: SharedArrayBuffer
}

export function startPulse(parts: PulseParts): RunningPulse {
  return parts.location === null ? beatHere(parts) : beatInThread(parts, parts.location)
}

/** Its place in what is shared with the thread. */
export const FOLLOWS = 1

function beatHere({ journal, engine, place, beatMs, clock, log, receive }: PulseParts): RunningPulse {
  let stopped = false
  let follows = false
  let cancel = () => {}
  let beating: Promise<void> = Promise.resolve()
  const beat = async (row: Omit<EngineBeat, "follows">): Promise<void> => {
    try {
      const pulse = await journal.beat({ ...row, follows })
      if (!stopped) receive(pulse)
    } catch (error) {
      log.warn({ error: String(error) }, "beat failed")
    }
    if (stopped) return
    cancel = clock.after(beatMs, () => {
      beating = beat({ ...row, beat: row.beat + 1 })
    })
  }
  beating = beat({ engine, place, beat: 1 })
  return {
    follow(isFollowing) {
      follows = isFollowing
    },
    stop() {
      stopped = true
      cancel()
      return beating
    },
  }
}

function beatInThread(parts: PulseParts, location: string): RunningPulse {
  const { engine, place, beatMs, leaseMs, log, receive } = parts
  const shared = new SharedArrayBuffer(8)
  const counter = new Int32Array(shared)
  const tick = setInterval(() => Atomics.add(counter, 0, 1), Math.min(beatMs, 1000) / 2)
  tick.unref()
  const workerData: PulseThreadData = { location, engine, place, beatMs, leaseMs, shared }
  let stopped = false
  let thread: ReturnType<typeof startThread>
  const begin = (): void => {
    thread = startThread(new URL("./pulse-thread", import.meta.url), { workerData })
    thread.on("message", (message: { pulse?: Pulse; error?: string }) => {
      if (stopped) return
      if (message.pulse !== undefined) receive(message.pulse)
      else log.warn({ error: message.error }, "beat failed")
    })
    thread.on("error", error => log.error({ error }, "the thread that sends the beat died; starting another"))
    // Without a beat peers take over, and nobody tells this engine.
    thread.on("exit", () => {
      if (!stopped) setTimeout(() => stopped || begin(), beatMs).unref()
    })
  }
  begin()
  return {
    follow: isFollowing => void Atomics.store(counter, FOLLOWS, Number(isFollowing)),
    async stop() {
      stopped = true
      clearInterval(tick)
      await thread.terminate()
    },
  }
}
