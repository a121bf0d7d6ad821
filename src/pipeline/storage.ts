/**
 * The stored values of one execution. A value that a message puts is visible to that message alone until its
 * acknowledgement is durable: the value is written with it, or dropped with the delivery.
 */

import type { Json } from "../core/json.ts"
import { valueIn } from "../core/maps.ts"
import type { PipelineStore } from "../journal/port/pipelines.ts"
import { checkOutput } from "../worker/output.ts"
import type { AdapterStorage } from "./adapter.ts"

const VALUE = "value/"
const CLAIM = "claim/"
/** The value is part of the commit of its message. */
const MAX_VALUE_BYTES = 1024 * 1024

/** The part of it that a chain needs. */
export interface OpensStorage {
  open(message: string): DeliveryStorage
}

export class ExecutionStorage implements OpensStorage {
  readonly #store: PipelineStore
  readonly #execution: number
  /** Put by messages that are acknowledged, and not durable yet: JSON by key. */
  readonly #uncommitted = new Map<string, string>()
  /** The claiming message by key, while it is in flight or its end is not durable. */
  readonly #claims = new Map<string, string>()

  /** By key, while the read is in flight. */
  readonly #reads = new Map<string, Promise<string | undefined>>()

  constructor(store: PipelineStore, execution: number) {
    this.#store = store
    this.#execution = execution
  }

  /** For one delivery of a message. */
  open(message: string): DeliveryStorage {
    return new DeliveryStorage(this, message)
  }

  async read(key: string): Promise<string | undefined> {
    const known = this.#uncommitted.get(key)
    if (known !== undefined) return known
    return (await this.#store.readStored(this.#execution, [key])).get(key)
  }

  async claim(key: string, message: string): Promise<boolean> {
    const first = this.#claims.get(key) ?? (await this.#storedOnce(key)) ?? this.#claims.get(key) ?? message
    if (first === message) this.#claims.set(key, message)
    return first === message
  }

  /**
   * Concurrent reads of a key share one query: otherwise a second query could return when the claim made
   * after the first is already durable and dropped from memory here, without having seen it.
   */
  #storedOnce(key: string): Promise<string | undefined> {
    return valueIn(this.#reads, key, () => this.#stored(key).finally(() => this.#reads.delete(key)))
  }

  async #stored(key: string): Promise<string | undefined> {
    const text = await this.read(CLAIM + key)
    return text === undefined ? undefined : (JSON.parse(text) as string)
  }

  release(keys: Iterable<string>, message: string): void {
    for (const key of keys) if (this.#claims.get(key) === message) this.#claims.delete(key)
  }

  /** The message is acknowledged; these values are in flight to the store. */
  ended(stored: readonly { readonly key: string; readonly value: string }[]): void {
    for (const { key, value } of stored) this.#uncommitted.set(key, value)
  }

  durable(stored: readonly { readonly key: string; readonly value: string }[]): void {
    for (const { key, value } of stored) {
      if (this.#uncommitted.get(key) === value) this.#uncommitted.delete(key)
      if (key.startsWith(CLAIM)) this.#claims.delete(key.slice(CLAIM.length))
    }
  }
}

export class DeliveryStorage implements AdapterStorage {
  readonly #storage: ExecutionStorage
  readonly #message: string
  readonly #put = new Map<string, string>()
  readonly #claimed = new Set<string>()

  constructor(storage: ExecutionStorage, message: string) {
    this.#storage = storage
    this.#message = message
  }

  async get(key: string): Promise<Json | undefined> {
    const text = this.#put.get(VALUE + key) ?? (await this.#storage.read(VALUE + key))
    return text === undefined ? undefined : (JSON.parse(text) as Json)
  }

  put(key: string, value: Json): void {
    this.#put.set(VALUE + key, checkOutput(value, { maxBytes: MAX_VALUE_BYTES, what: "stored value" }).text)
  }

  async claim(key: string): Promise<boolean> {
    if (this.#claimed.has(key)) return true
    if (!(await this.#storage.claim(key, this.#message))) return false
    this.#claimed.add(key)
    this.#put.set(CLAIM + key, JSON.stringify(this.#message))
    return true
  }

  /** The values to be written with the acknowledgement. */
  get changes(): readonly { readonly key: string; readonly value: string }[] {
    return [...this.#put].map(([key, value]) => ({ key, value }))
  }

  /** The delivery has failed: other messages may claim its keys. */
  release(): void {
    this.#storage.release(this.#claimed, this.#message)
  }
}
