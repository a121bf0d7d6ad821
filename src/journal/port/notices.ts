/** Messages to the owners of partitions. */

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

export interface MessageRow {
  readonly id: number
  readonly partition: number
  readonly jobId: string
  readonly sentAt: number
  /** A command that another process built, as JSON; null: `notice` contains the command. */
  readonly command: string | null
  readonly notice: Notice | null
}

/** A message that the store itself sends to a job, about a node or an item of it. */
export type Notice = SlotNotice | OperationNotice

/** A slot was granted. */
export interface SlotNotice {
  readonly kind: "grant_slot"
  readonly node: number
  readonly item?: number
}

/** A webhook arrived for an operation. */
export interface OperationNotice {
  readonly kind: "external"
  readonly node: number
  readonly item?: number
  /** As in `NewWebhookEvent`. */
  readonly news: string
}
