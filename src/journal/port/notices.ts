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
