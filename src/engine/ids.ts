import { createHash, randomBytes } from "node:crypto"

/**
 * A job id is a UUIDv7 whose 12 bits after the version are the job's cell (one digit) and its partition (two): neither
 * is ever looked up. Within a store the cell has no meaning; it is for a router in front of several stores
 * (docs/operations/beyond-one-postgres.md).
 */
const RANDOM_POOL = 4096
let pool = Buffer.alloc(0)
let used = 0
/** Ids of one millisecond are counted, so that jobs of a bulk keep their order within a partition. */
const VARIANT = 0x8000
const MAX_COUNT = 0x3fff
let lastTime = 0
let count = 0

export function newJobId(partition: number, now: number, cell = 0): string {
  if (used + 6 > pool.length) {
    pool = randomBytes(RANDOM_POOL)
    used = 0
  }
  const tail = pool.toString("hex", used, used + 6)
  used += 6
  count = now === lastTime ? Math.min(count + 1, MAX_COUNT) : 0
  lastTime = now
  const inOrder = (VARIANT + count).toString(16)
  return `${idStart(partition, now, cell)}-${inOrder}-${tail}`
}

/** The part of an id that depends on its time alone, of the last time: a bulk has many ids of one millisecond. */
let timePart = { time: Number.NaN, text: "" }

function idStart(partition: number, time: number, cell: number): string {
  if (time !== timePart.time) {
    const hex = time.toString(16).padStart(12, "0")
    timePart = { time, text: `${hex.slice(0, 8)}-${hex.slice(8)}-7` }
  }
  return `${timePart.text}${cell.toString(16)}${partition < 16 ? "0" : ""}${partition.toString(16)}`
}

/** When the id was made, in milliseconds since 1970. */
export function idTime(jobId: string): number {
  return Number.parseInt(jobId.slice(0, 8) + jobId.slice(9, 13), 16)
}

/** Lower than every id that is made from then on. */
export function firstIdAt(time: number): string {
  const hex = Math.floor(time).toString(16).padStart(12, "0")
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}

/**
 * The id of the job that runs for a node: it follows from the node, so that a retry finds the same job. It has its
 * parent's time and partition, so a family has one owner and is stored together in the primary key. `instead`: the
 * attempt that began a new child, because the one before had been deleted.
 */
export function childJobId(parentId: string, node: number, item?: number, instead?: number): string {
  const place = item === undefined ? `${node}` : `${node}/${item}`
  const life = instead === undefined ? "" : `#${instead}`
  return `${familyPrefix(parentId)}-${hashedEnd(`${parentId}/${place}${life}`)}`
}

/**
 * The id of the job of a tick: it follows from schedule and tick, and has the time of the tick and the partition of the
 * schedule.
 */
export function scheduledJobId(of: {
  readonly scheduleId: string
  readonly partition: number
  readonly tick: number
  readonly cell: number
}): string {
  const { scheduleId, partition, tick, cell } = of
  return `${idStart(partition, tick, cell)}-${hashedEnd(`${scheduleId}/${tick}`)}`
}

/** The end of an id that follows from a text. */
function hashedEnd(text: string): string {
  const hash = createHash("sha256").update(text).digest("hex")
  const variant = "89ab"[Number.parseInt(hash[0]!, 16) & 3]
  return `${variant}${hash.slice(1, 4)}-${hash.slice(4, 16)}`
}

/**
 * The id of the fork that a bulk operation makes of a job: it follows from both, so that a repetition finds the same fork. It
 * has a time soon after the operation, and the cell and partition of the origin.
 */
export function bulkForkId(operationId: string, originId: string): string {
  const end = hashedEnd(`${operationId}/fork/${originId}`)
  return `${idStart(jobPartition(originId), soonAfter(operationId, end), parseCell(originId))}-${end}`
}

/** A list reads all jobs of 16 ms of ids (journal/marks.ts), and an operation may make 100,000: they are spread over four seconds. */
const SPREAD_DIGITS = 3

function soonAfter(operationId: string, end: string): number {
  return idTime(operationId) + Number.parseInt(end.slice(-SPREAD_DIGITS), 16)
}

/**
 * The id of the job that a backfill starts for a tick: it follows from both. It has a time soon after the operation, and its
 * cell; the jobs of a backfill are spread over all partitions.
 */
export function backfillJobId(operationId: string, tick: number, partitions: number): string {
  const end = hashedEnd(`${operationId}/tick/${tick}`)
  const partition = Number.parseInt(end.slice(5, 9), 16) % partitions
  return `${idStart(partition, soonAfter(operationId, end), parseCell(operationId))}-${end}`
}

/** The common prefix of the ids of a job, its children and theirs. */
function familyPrefix(jobId: string): string {
  return jobId.slice(0, 18)
}

const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

export function isJobId(text: string): boolean {
  return pattern.test(text)
}

function parseCell(jobId: string): number {
  return Number.parseInt(jobId.slice(15, 16), 16)
}

export function jobPartition(jobId: string): number {
  return Number.parseInt(jobId.slice(16, 18), 16)
}

/** Seqs of one epoch: a new owner starts at the next multiple and need not look up the last one. */
export const SEQS_PER_EPOCH = 2 ** 34

export function firstSeq(epoch: number): number {
  return epoch * SEQS_PER_EPOCH
}
