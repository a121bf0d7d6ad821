/** Values that both stores use. */
import type { DueJob, EndedJobKey, JobChange, NewJob } from "./port/journal.ts"
import type { MessageKey } from "./port/pipelines.ts"

/** Larger than anything stored: read everything. */
export const NO_LIMIT = 2 ** 40

const NO_ID = "00000000-0000-0000-0000-000000000000"

/** Before every due job, every ended one, and every message of a pipeline. */
export const BEFORE_ALL: DueJob = { wakeAt: -1, id: NO_ID }
export const BEFORE_ALL_ENDED: EndedJobKey = { finishedAt: -1, id: NO_ID }
export const BEFORE_ALL_KEYS: MessageKey = { route: -1, seq: -1 }

/** The length of the common prefix of the ids of a job and its children. */
export const FAMILY_LENGTH = 18

/**
 * More take-overs of a partition than can happen between a backup and its restore. Epochs go up to 2^19
 * (`engine/ids.ts`).
 */
export const RESTORED_EPOCHS = 1024

export type Keys<T> = readonly (keyof T & string)[]

/** The fields of a job: those that a change writes, then all. */
export const changeKeys: Keys<Omit<JobChange, "isRelabelled">> = [
  "id",
  "partition",
  "seq",
  "status",
  "updatedAt",
  "finishedAt",
  "wakeAt",
  "output",
  "error",
  "fingerprint",
  "stats",
  "labels",
]
export const jobKeys: Keys<Omit<NewJob, "isRelabelled">> = [
  ...changeKeys,
  "owner",
  "workflow",
  "workflowVersion",
  "parentId",
  "priority",
  "createdAt",
  "submittedBy",
  "forkedFrom",
  "definition",
]
