/** What forks refer to outside of themselves. */

/** A job refers to something outside of itself: a row of `held`. */
export interface HeldRow {
  readonly partition: number
  /** The job, or schedule, that refers. Its rows are removed with it. */
  readonly by: string
  /** The id of another job, the hash of a definition, or an artifact (`heldArtifact` of core/artifacts.ts). */
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
