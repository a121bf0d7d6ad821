/** What forks refer to outside of themselves. */

/** A job refers to something outside of itself: a row of `held`. */
export interface HeldRow {
  readonly partition: number
  /** The job that refers. Its rows are removed with it. */
  readonly by: string
  /** The id of another job, or the hash of a definition. */
  readonly held: string
}

/** A definition that is no version of its workflow, with the job that needs it. */
export interface NewDefinition extends StoredDefinition {
  readonly partition: number
  readonly jobId: string
  readonly usedAt: number
}

export interface StoredDefinition {
  readonly hash: string
  /** As `definition` of `NewWorkflow`. */
  readonly definition: string
  readonly rules: number
}
