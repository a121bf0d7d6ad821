/** Converts rows, which both stores return with the port's names, to what the port has beyond columns. */
import type { JobRow, MessageRow, Notice } from "./port/journal.ts"
import type * as pipelines from "./port/pipelines.ts"
import type { ProviderErrorRow, ProviderOverview, SlotKey } from "./port/providers.ts"
import {
  type AliasMove,
  type AliasRow,
  parseTargets,
  type SessionRow,
  type TokenLimits,
  type TokenRow,
} from "./port/registry.ts"

/** -1: the node itself. */
export function itemColumn({ item = -1 }: { readonly item?: number | undefined }): number {
  return item
}

/** The item as it is stored. */
export function keyed<T extends SlotKey>(slot: T) {
  return { ...slot, item: itemColumn(slot) }
}

export function slotName(slot: SlotKey): string {
  return [slot.jobId, slot.node, itemColumn(slot)].join("/")
}

/** A row of the port as it is stored: its item is never absent. */
export type StoredSlot<T extends { readonly item?: number | undefined }> = Omit<T, "item"> & {
  readonly item: number
}

export function slotRow<T extends { readonly item: number }>({ item, ...row }: T) {
  return (item < 0 ? row : { ...row, item }) as Omit<T, "item"> & { readonly item?: number }
}

/** The partitions of these rows, each once. */
export function distinctPartitions(rows: readonly { readonly partition: number }[]): readonly number[] {
  return [...new Set(rows.map(({ partition }) => partition))]
}

export interface ListedJob extends JobRow {
  readonly isLarge: boolean | number | null
}

export function listedJob({ isLarge, ...job }: ListedJob): JobRow {
  return isLarge ? { ...job, outputLeftOut: true } : job
}

/** Of a message that another process built, all but the command are null. `item` -1: of the node itself. */
export interface StoredMessage extends Omit<MessageRow, "notice"> {
  readonly kind: Notice["kind"] | null
  readonly node: number | null
  readonly item: number | null
  readonly news: string | null
}

export function messageRow({ kind, node, item, news, ...message }: StoredMessage): MessageRow {
  if (kind === null) return { ...message, notice: null }
  const task = slotRow({ node: node!, item: item! })
  return { ...message, notice: kind === "grant_slot" ? { kind, ...task } : { kind, ...task, news: news! } }
}

export type StoredAlias = Omit<AliasRow, "targets"> & { readonly targets: string }

export function aliasRow(row: StoredAlias): AliasRow {
  return { ...row, targets: parseTargets(row.targets) }
}

export type StoredMove = Omit<AliasMove, "from" | "to"> & {
  readonly from: string | null
  readonly to: string | null
}

export function aliasMove({ from, to, ...move }: StoredMove): AliasMove {
  const targets = (text: string | null) => (text === null ? null : parseTargets(text))
  return { ...move, from: targets(from), to: targets(to) }
}

export type StoredToken = Omit<TokenRow, "scopes"> & { readonly scopes: string }

export function tokenRow(row: StoredToken): TokenRow {
  return { ...row, scopes: row.scopes.split(" ") }
}

export type StoredSession = Omit<SessionRow, "scopes"> & TokenLimits & { readonly scopes: string }

export function sessionRow(row: StoredSession): SessionRow & TokenLimits {
  return { ...row, scopes: row.scopes.split(" ").filter(scope => scope !== "") }
}

/** Holders of slots: nodes that wait for their operation, and operations of ended jobs. */
export interface StoredHolder extends StoredSlot<SlotKey> {
  readonly owner: string
  readonly since: number
  readonly until: number
  readonly unseen: boolean | number
}

export type StoredOverview = Omit<ProviderOverview, "held" | "unseen" | "errors"> & {
  readonly held: readonly StoredHolder[]
  readonly errors: readonly ProviderErrorRow[]
}

export function providerOverview({ held, ...overview }: StoredOverview): ProviderOverview {
  const unseen = held.filter(holder => holder.unseen)
  return {
    ...overview,
    held: held.map(({ since: grantedAt, until: heldUntil, unseen: _, ...slot }) => {
      return { ...slotRow(slot), grantedAt, heldUntil }
    }),
    unseen: unseen.map(({ until: slotUntil, unseen: _, ...slot }) => ({ ...slotRow(slot), slotUntil })),
  }
}

export interface StoredPipelineMessage extends Omit<pipelines.MessageRow, "parent"> {
  readonly parentRoute: number | null
  readonly parentSeq: number | null
}

export function pipelineMessage<T extends StoredPipelineMessage>({ parentRoute, parentSeq, ...row }: T) {
  const parent = parentRoute === null ? null : { route: parentRoute, seq: parentSeq! }
  return { ...row, parent } as Omit<T, "parentRoute" | "parentSeq"> & Pick<pipelines.MessageRow, "parent">
}
