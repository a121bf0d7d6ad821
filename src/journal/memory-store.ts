import { randomUUID } from "node:crypto"
import type { StoredExecution } from "./memory-pipelines.ts"
import type * as port from "./port.ts"
import type {
  BegunOperation,
  NewWebhookEvent,
  ProviderErrorRow,
  SlotKey,
  WebhookEventRow,
} from "./provider-store.ts"
import type { AliasMove, AliasRow, TokenRow } from "./registry.ts"

/** What several openings may share, as several processes share a database. */
export interface MemoryStore {
  readonly partitions: { owner: string | null; epoch: number }[]
  readonly engines: Map<string, { place: string; beat: number; follows: boolean; purgedBeat: number | null }>
  /** By owner and name; the index is the version less one. */
  readonly workflows: Map<string, (Required<port.NewWorkflow> & { deletedAt: number | null })[]>
  readonly jobs: Map<string, port.JobRow>
  /** Per partition, the jobs that have an alarm and when it rings. */
  readonly waiting: Map<string, number>[]
  /** Per job, in order of seq. */
  readonly facts: Map<string, port.FactRow[]>
  /** Per partition, in order of seq. */
  readonly feed: port.FactRow[][]
  readonly inbox: Map<number, StoredMessage>
  readonly causes: Set<string>
  readonly keys: Map<string, port.KeyClaim>
  readonly aliases: Map<string, AliasRow>
  /** Newest first. */
  readonly aliasMoves: Map<string, AliasMove[]>
  readonly tokens: Map<string, TokenRow>
  /** In the order they were asked for. */
  readonly slots: Map<string, StoredSlot>
  /** By provider and owner: the grant in which it last had its turn. */
  readonly slotTurns: Map<string, number>
  readonly pace: Map<string, { readonly nextAt: number; readonly factor: number }>
  readonly operations: Map<string, StoredOperation>
  /** By provider and external id: whose the operation is. */
  readonly claims: Map<string, { readonly owner: string; readonly claimedAt: number }>
  readonly events: StoredEvent[]
  readonly providerErrors: Map<string, ProviderErrorRow[]>
  readonly executions: Map<number, StoredExecution>
  readonly listeners: Set<(partition: number) => void>
  readonly feedListeners: Set<(news: string) => void>
  id: string
  messages: number
  lastExecution: number
}

export interface StoredSlot extends SlotKey {
  readonly provider: string
  readonly partition: number
  readonly owner: string
  readonly askedAt: number
  grantedAt: number
  /** null: waits. */
  heldUntil: number | null
}

export interface StoredOperation extends Omit<BegunOperation, "slotUntil"> {
  endedAt: number | null
  cancelAt: number | null
  /** Until then it counts as a slot. */
  slotUntil: number | null
  tries: number
}

export interface StoredEvent extends Omit<NewWebhookEvent, "verdict"> {
  verdict: WebhookEventRow["verdict"]
}

export interface StoredMessage extends port.MessageRow {
  readonly cause: string
  answer: string | null
  withdrawn: boolean
}

export function createMemoryStore(options: { readonly partitions?: number } = {}): MemoryStore {
  const length = options.partitions ?? 64
  return {
    partitions: Array.from({ length }, () => ({ owner: null, epoch: 0 })),
    waiting: Array.from({ length }, () => new Map()),
    engines: new Map(),
    workflows: new Map(),
    jobs: new Map(),
    facts: new Map(),
    feed: Array.from({ length }, () => []),
    inbox: new Map(),
    causes: new Set(),
    keys: new Map(),
    aliases: new Map(),
    aliasMoves: new Map(),
    tokens: new Map(),
    slots: new Map(),
    slotTurns: new Map(),
    pace: new Map(),
    operations: new Map(),
    claims: new Map(),
    events: [],
    providerErrors: new Map(),
    executions: new Map(),
    listeners: new Set(),
    feedListeners: new Set(),
    id: randomUUID(),
    messages: 0,
    lastExecution: 0,
  }
}

export function isOpen(message: StoredMessage): boolean {
  return message.answer === null && !message.withdrawn
}

/** One text for two, without two pairs that look alike. */
export function pair(a: string, b: string): string {
  return JSON.stringify([a, b])
}
