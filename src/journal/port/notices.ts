export interface NewMessage {
  readonly partition: number
  readonly jobId: string
  /** A command as JSON. */
  readonly command: string
  readonly sentAt: number
  /**
   * Messages written by `append` must carry the fact that caused them, so that a second sending is
   * recognised.
   */
  readonly cause?: { readonly partition: number; readonly seq: number }
}

