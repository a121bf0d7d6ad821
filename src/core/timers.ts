import type { Command } from "./commands.ts"
import type { Waiting } from "./facts.ts"
import type { Json } from "./json.ts"
import { addPolling, findTask, isDelayed, type JobState, type TaskRef } from "./state.ts"

/** When a timer of the job is next due; null: never. May be early, is never late. */
export function nextTimer(state: JobState): number | null {
  return state.earliestTimer === Number.POSITIVE_INFINITY ? null : state.earliestTimer
}

/** The `wakeAt` of a job with something in flight, or with relatives to notify: before any real time, so that the two are never confused. */
const AT_ONCE = 0

/**
 * When an owner that takes the job over has to load it: at once if anything is in flight, else at its next timer.
 * null: the job has ended and its relatives are notified, or it waits for an event without a time.
 */
export function wakeAt(state: JobState): number | null {
  if (state.status === "QUEUED" && state.paused === null) return queueKey(state)
  if (state.finishedAt !== null) return state.unsettled ? AT_ONCE : null
  return isBusy(state) ? AT_ONCE : nextTimer(state)
}

/** What places a job in the queues of its partition. */
export type QueuedJob = Pick<JobState, "owner" | "workflow" | "ttlSeconds" | "priority">

const LEVELS = 2048
const HIGHEST = 1000

/**
 * The `wakeAt` of a QUEUED job: negative, so that it is never due. Jobs with the same owner, workflow and time to live
 * are one queue, and its keys are ordered by priority, highest first. So an index range holds one priority of one queue,
 * in the order of job ids, which is the order of submission and of expiry.
 */
export function queueKey(job: QueuedJob): number {
  return keyIn(queueBase(job), job.priority)
}

export function keyIn(base: number, priority: number): number {
  return base + HIGHEST - priority
}

/** The part of the key that all priorities of a queue share. */
export function queueBase({ owner, workflow, ttlSeconds }: Omit<QueuedJob, "priority">): number {
  return hash41(`${owner}\n${workflow}\n${ttlSeconds}`) * LEVELS - 2 ** 52
}

/** The queue and priority of a key. */
export function parseQueueKey(key: number): { readonly base: number; readonly priority: number } {
  const level = (key + 2 ** 52) % LEVELS
  return { base: key - level, priority: HIGHEST - level }
}

/** Before and after the keys of all QUEUED jobs. */
export const FIRST_QUEUE_KEY = -(2 ** 52)
export const LAST_QUEUE_KEY = -2

/** Two FNV-1a hashes, the second seeded with the first. Queues with equal hashes would only share their turns. */
function hash41(text: string): number {
  const low = fnv(text, 0x811c9dc5)
  return (fnv(text, low) % 512) * 2 ** 32 + low
}

function fnv(text: string, seed: number): number {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** Is the job found in time with this `wakeAt` stored? A job with work in flight is, with any time in the past. */
export function wakesInTime(state: JobState, stored: number | null, now: number): boolean {
  const wake = wakeAt(state)
  if (wake === null || stored === null || wake < 0) return wake === stored
  return state.active > 0 || state.retryAt.size > 0 ? stored <= Math.max(wake, now) : stored <= wake
}

/** Is something of it in flight, or being polled? */
export function isBusy({ active, polling, lists }: JobState): boolean {
  if (active > 0 || polling.size > 0) return true
  for (const { state: list } of lists.values()) if (list.polling.size > 0) return true
  return false
}

/** The output with which a waiting node completes when its time comes; undefined: it fails. */
export function outputWhenDue(waiting: Waiting): Json | undefined {
  if (waiting.kind === "timer") return waiting.output
  return waiting.kind === "signal" ? waiting.default : undefined
}

/**
 * Takes the nodes whose retry time has come: they are in flight again. No fact: the failure has recorded the time. While
 * the job is paused they wait.
 */
export function takeDueRetries(state: JobState, now: number): number[] {
  if (state.paused !== null) return []
  const due: number[] = []
  for (const [node, at] of state.retryAt) if (at <= now) due.push(node)
  for (const node of due) state.retryAt.delete(node)
  state.active += due.length
  return due
}

/** Takes the nodes whose operation is to be polled now. No fact: the result of the poll is recorded. */
export function takeDuePolls(state: JobState, now: number): number[] {
  const due: number[] = []
  for (const [node, at] of state.pollAt) if (at <= now && !state.polling.has(node)) due.push(node)
  for (const node of due) addPolling(state, node)
  return due
}

/** The same for items of nodes with `for_each`. */
export function takeDueItemRetries(state: JobState, now: number): { node: number; item: number }[] {
  const due: { node: number; item: number }[] = []
  for (const [node, { state: list }] of state.lists)
    for (const item of list.retryAt.size === 0 ? [] : takeDueRetries(list, now)) due.push({ node, item })
  state.active += due.length
  return due
}

export function takeDueItemPolls(state: JobState, now: number): { node: number; item: number }[] {
  const due: { node: number; item: number }[] = []
  for (const [node, { state: list }] of state.lists)
    for (const item of list.pollAt.size === 0 ? [] : takeDuePolls(list, now)) due.push({ node, item })
  return due
}

/** After timers fired: finds the earliest that is left. While the job is paused only its own time and its operations count. */
export function resetEarliestTimer(state: JobState): void {
  let earliest = state.expiresAt ?? Number.POSITIVE_INFINITY
  const isPaused = state.paused !== null
  if (!isPaused && isDelayed(state)) earliest = Math.min(earliest, state.startAt!)
  if (!isPaused) for (const at of state.retryAt.values()) earliest = Math.min(earliest, at)
  for (const waiting of state.waiting.values())
    if (!isPaused || waiting.kind === "external")
      earliest = Math.min(earliest, waiting.until ?? Number.POSITIVE_INFINITY)
  for (const [node, at] of state.pollAt) if (!state.polling.has(node)) earliest = Math.min(earliest, at)
  for (const { state: list } of state.lists.values()) {
    resetEarliestTimer(list)
    earliest = Math.min(earliest, list.earliestTimer)
  }
  state.earliestTimer = state.finishedAt !== null ? Number.POSITIVE_INFINITY : earliest
}

export function setExpiry(state: JobState, expiresAt: number | null): void {
  state.expiresAt = expiresAt
  if (expiresAt !== null) state.earliestTimer = Math.min(state.earliestTimer, expiresAt)
}

/** Did an attempt, or an operation at a provider, fail and get another try? */
export function isRetried(state: JobState, command: Command): boolean {
  if (command.type !== "external" && command.type !== "failed") return false
  const place = findTask(state, command)
  return place?.state.retryAt.has(place.position) === true
}

/** What a job has to do when its alarm fires, removed from its timers. */
export interface Due {
  /** Tasks to dispatch again. */
  readonly tasks: readonly TaskRef[]
  /** Operations to poll. */
  readonly polls: readonly TaskRef[]
}

export function takeDue(state: JobState, now: number): Due {
  const retries = takeDueRetries(state, now).map(node => ({ node }))
  const items = takeDueItemRetries(state, now)
  const polls = takeDuePolls(state, now).map(node => ({ node }))
  const itemPolls = takeDueItemPolls(state, now)
  resetEarliestTimer(state)
  return { tasks: [...retries, ...items], polls: [...polls, ...itemPolls] }
}
