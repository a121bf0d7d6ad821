/** Answers of the API that the dashboard reads. */
import type { JobSnapshot } from "../../../src/client/types.ts"

export type { JobPage, JobSnapshot } from "../../../src/client/types.ts"

/** A job in a list has no large output. */
export type ListedJob = Omit<JobSnapshot, "output">
