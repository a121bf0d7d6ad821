import type { EngineBeat, Heartbeat, Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { startThread } from "../../thread.ts"
import type { Clock } from "../clock.ts"

/**
 * The heartbeat that shows that this engine is alive, and the rows that it returns. On PostgreSQL a thread with its own
 * connection sends it, so that a long fold in the main thread does not look like a dead engine; it sends only while the
 * main thread makes progress, so that a hanging engine does look dead.
 */
export interface HeartbeatParts {
  readonly journal: Journal
  /** Where a thread can open the store again; null: send heartbeats from this thread. */
  readonly location: string | null
  readonly engine: string
  /** The description of this process that the next heartbeat carries. */
  readonly place: () => string
  readonly beatMs: number
  /** Without progress of the main thread for this long no heartbeat is sent. */
  readonly leaseMs: number
  readonly clock: Clock
  readonly log: Log
  /** `sentAt`: when the heartbeat was sent, by `monotonicMs`. */
  readonly receive: (heartbeat: Heartbeat, sentAt: number) => void
}

export interface RunningHeartbeat {
  /** Sets whether the next heartbeats report that this engine follows the commits of others. */
  follow(isFollowing: boolean): void
  /** Sends the next heartbeat at once: there may be partitions to take, or something to announce. */
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

/** Messages from the thread. */
export type HeartbeatMessage =
  | { readonly heartbeat: Heartbeat; readonly sentAt: number }
  | { readonly error: string }

/** Messages from the main thread to the heartbeat thread. */
export interface HeartbeatCommand {
  readonly place?: string
  readonly beatNow?: true
}

/** The time, and always more than the last value: peers take a value that does not change for a dead engine, and a clock may be set back. */
export function nextBeat(last: number, now: number): number {
  return Math.max(last + 1, now)
}

export function startHeartbeat(parts: HeartbeatParts): RunningHeartbeat {
  return parts.location === null ? beatInMainThread(parts) : beatInThread(parts, parts.location)
}

/** Its index in the memory shared with the thread. */
export const FOLLOWS = 1

function beatInMainThread({
  journal,
  engine,
  place,
  beatMs,
  clock,
  log,
  receive,
}: HeartbeatParts): RunningHeartbeat {
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
      const heartbeat = await journal.beat(row)
      if (!stopped) receive(heartbeat, sentAt)
    } catch (error) {
      log.warn({ error: String(error) }, "heartbeat failed")
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
  let sentPlace = ""
  const tick = setInterval(() => {
    Atomics.add(counter, 0, 1)
    const now = place()
    if (now !== sentPlace) thread.postMessage({ place: now } satisfies HeartbeatCommand)
    sentPlace = now
  }, Math.min(beatMs, 1000) / 2)
  tick.unref()
  let stopped = false
  let thread: ReturnType<typeof startThread>
  const begin = (): void => {
    sentPlace = place()
    const workerData: HeartbeatThreadData = { location, engine, place: sentPlace, beatMs, leaseMs, shared }
    thread = startThread("engine/partitions/heartbeat-thread", { workerData })
    thread.on("message", (message: HeartbeatMessage) => {
      if (stopped) return
      if ("heartbeat" in message) receive(message.heartbeat, message.sentAt)
      else log.warn({ error: message.error }, "heartbeat failed")
    })
    thread.on("error", error => log.error({ error }, "the heartbeat thread died; starting another"))
    // Without a heartbeat peers take over, and this engine would not learn of it.
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

/**
 * Until when this engine can be sure of its partitions. Others take over when its heartbeat has not changed for a lease,
 * which begins when they see it: later than it was sent. So by its own clock this engine stops being sure before any
 * other can take over.
 */
export class Lease {
  readonly #ms: number
  #until: number

  constructor(ms: number, store: { readonly exclusive: boolean }) {
    this.#ms = ms
    this.#until = store.exclusive ? Number.POSITIVE_INFINITY : 0
  }

  get isSure(): boolean {
    return monotonicMs() < this.#until
  }

  /** A heartbeat that was sent then, by `monotonicMs`, has been stored. */
  renew(sentAt: number): void {
    this.#until = Math.max(this.#until, sentAt + this.#ms)
  }
}

/** The same in every thread of a process; it also advances while the process is suspended. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}
