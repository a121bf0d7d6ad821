import type { EngineBeat, Heartbeat, Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { startThread } from "../../thread.ts"
import type { Clock } from "../clock.ts"
import { monotonicMs } from "./lease.ts"

/**
 * The beat that says this engine lives, and what comes back with it. On PostgreSQL it is sent from a thread with a
 * connection of its own, so that a long fold in the main thread does not look like death; and only while the main
 * thread makes progress, so that one that hangs does.
 */
export interface HeartbeatParts {
  readonly journal: Journal
  /** Where a thread can open the store again; null: beat from here. */
  readonly location: string | null
  readonly engine: string
  /** What the next beat says. */
  readonly place: () => string
  readonly beatMs: number
  /** Without progress of the main thread for this long no beat is sent. */
  readonly leaseMs: number
  readonly clock: Clock
  readonly log: Log
  /** `sentAt`: when the beat left, by `monotonicMs`. */
  readonly receive: (pulse: Heartbeat, sentAt: number) => void
}

export interface RunningHeartbeat {
  /** From its next beat on the engine says that it follows the others' commits, or that it does not. */
  follow(isFollowing: boolean): void
  /** The next beat comes at once: there may be something to take, or to say. */
  beatNow(): void
  stop(): Promise<void>
}

export interface HeartbeatThreadData {
  readonly location: string
  readonly engine: string
  readonly place: string
  readonly beatMs: number
  readonly leaseMs: number
  /** A number that rises while the main thread makes progress, and whether the engine follows (1). */
  readonly shared: SharedArrayBuffer
}

/** What the thread tells. */
export type HeartbeatMessage =
  | { readonly pulse: Heartbeat; readonly sentAt: number }
  | { readonly error: string }

/** What the main thread tells the one that beats. */
export interface HeartbeatCommand {
  readonly place?: string
  readonly beatNow?: true
}

/** The time, and always more than the last: what stands still is dead, also when a clock is set back. */
export function nextBeat(last: number, now: number): number {
  return Math.max(last + 1, now)
}

export function startPulse(parts: HeartbeatParts): RunningHeartbeat {
  return parts.location === null ? beatHere(parts) : beatInThread(parts, parts.location)
}

/** Its place in what is shared with the thread. */
export const FOLLOWS = 1

function beatHere({ journal, engine, place, beatMs, clock, log, receive }: HeartbeatParts): RunningHeartbeat {
  let stopped = false
  let follows = false
  let cancel = () => {}
  let beating: Promise<void> = Promise.resolve()
  let next: (() => void) | null = null
  let isHurried = false
  const beat = async (last: number): Promise<void> => {
    next = null
    isHurried = false
    const sentAt = monotonicMs()
    const row: EngineBeat = { engine, place: place(), beat: nextBeat(last, clock.now()), follows }
    try {
      const pulse = await journal.beat(row)
      if (!stopped) receive(pulse, sentAt)
    } catch (error) {
      log.warn({ error: String(error) }, "beat failed")
    }
    if (stopped) return
    next = () => {
      cancel()
      beating = beat(row.beat)
    }
    cancel = clock.after(isHurried ? 0 : beatMs, next)
  }
  beating = beat(0)
  return {
    follow(isFollowing) {
      follows = isFollowing
    },
    beatNow() {
      isHurried = true
      if (!stopped) next?.()
    },
    stop() {
      stopped = true
      cancel()
      return beating
    },
  }
}

function beatInThread(parts: HeartbeatParts, location: string): RunningHeartbeat {
  const { engine, place, beatMs, leaseMs, log, receive } = parts
  const shared = new SharedArrayBuffer(8)
  const counter = new Int32Array(shared)
  let said = ""
  const tick = setInterval(() => {
    Atomics.add(counter, 0, 1)
    const now = place()
    if (now !== said) thread.postMessage({ place: now } satisfies HeartbeatCommand)
    said = now
  }, Math.min(beatMs, 1000) / 2)
  tick.unref()
  let stopped = false
  let thread: ReturnType<typeof startThread>
  const begin = (): void => {
    said = place()
    const workerData: HeartbeatThreadData = { location, engine, place: said, beatMs, leaseMs, shared }
    thread = startThread(new URL("./heartbeat-thread", import.meta.url), { workerData })
    thread.on("message", (message: HeartbeatMessage) => {
      if (stopped) return
      if ("pulse" in message) receive(message.pulse, message.sentAt)
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
    beatNow: () => thread.postMessage({ place: place(), beatNow: true } satisfies HeartbeatCommand),
    async stop() {
      stopped = true
      clearInterval(tick)
      await thread.terminate()
    },
  }
}
