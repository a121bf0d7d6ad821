/**
 * A copy of what a handler logs, as JSON of a bounded size.
 *
 * 1. Total: a getter, a proxy or `toJSON` may throw, objects may be circular and of any depth. What cannot be copied is
 *    replaced by a mark.
 * 2. `clean` sees every text before it is cut, so no half of a secret survives.
 * 3. An error is its type, message, code, cause and own properties. The copy has its stack, too, but `errors` names
 *    these copies: the stack is for the process log, and `withoutStacks` leaves it out.
 */
import { types } from "node:util"
import { ROW_BYTES } from "./buffer.ts"

export interface SafeFields {
  readonly fields: Record<string, unknown>
  /** The copies of errors in `fields`. */
  readonly errors: readonly object[]
}

export interface CopyOptions {
  /** Removes secrets from a text. */
  readonly clean?: ((text: string) => string) | undefined
  /** Errors without their own properties. */
  readonly isBrief?: boolean
  /** Of the copy, without the stacks of errors. Default: `ROW_BYTES`. */
  readonly maxBytes?: number
  /** The size of a text within JSON, without its quotes. Default: its length, which is never more. */
  readonly measureText?: (text: string) => number
}

const MAX_DEPTH = 32
const MAX_CAUSES = 5
/** Of an `AggregateError`. */
const MAX_ERRORS = 10
/** Of all stacks of a line together. */
const MAX_STACKS = 16_000

const CIRCULAR = "[Circular]"
const THROWS = "[Throws]"
const TRUNCATED = "[Truncated]"

/** An error by itself is the field `err`. */
export function safeFields(given: unknown, options: CopyOptions = {}): SafeFields {
  const copier = new Copier(options)
  const copy = copier.copy(given, isError)
  const fields = isFields(copy) ? copy : Array.isArray(copy) ? { ...copy } : { fields: copy }
  return { fields, errors: copier.errors }
}

/** The JSON text of any value. */
export function safeText(value: unknown, clean?: (text: string) => string): string {
  const copier = new Copier({ clean })
  return withoutStacks(copier.copy(value), copier.errors)
}

export function withoutStacks(value: unknown, errors: readonly object[]): string {
  if (errors.length === 0) return JSON.stringify(value) ?? "undefined"
  const found = new Set<unknown>(errors)
  return JSON.stringify(value, function (this: unknown, key, member) {
    return key === "stack" && found.has(this) ? undefined : member
  })
}

/** pino shows the name of an object without a constructor as the type of the error. */
export function asLoggedError(copy: object): void {
  Object.setPrototypeOf(copy, null)
  if (Object.hasOwn(copy, "name")) return
  Object.defineProperty(copy, "name", { value: (copy as { type?: unknown }).type, configurable: true })
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

const shown = new Set(["type", "name", "message", "code", "cause", "errors", "stack"])

class Copier {
  readonly errors: object[] = []
  readonly #clean: (text: string) => string
  readonly #measureText: (text: string) => number
  readonly #isBrief: boolean
  #left: number
  #stacksLeft = MAX_STACKS
  /** The objects around the one that is copied. */
  readonly #around: unknown[] = []

  constructor(options: CopyOptions) {
    const { clean, measureText, isBrief = false, maxBytes = ROW_BYTES } = options
    this.#clean = clean ?? (text => text)
    this.#measureText = measureText ?? (text => text.length)
    this.#isBrief = isBrief
    this.#left = maxBytes
  }

  /** `isWrapped`: such a value is copied as the field `err`. */
  copy(value: unknown, isWrapped?: (value: unknown) => boolean): unknown {
    return this.#guarded(() => this.#value(isWrapped?.(value) ? { err: value } : value))
  }

  #guarded(read: () => unknown): unknown {
    const depth = this.#around.length
    try {
      return read()
    } catch {
      return this.#mark(THROWS)
    } finally {
      this.#around.length = depth
    }
  }

  /** undefined: JSON has no such value. */
  #value(value: unknown, hasToJson = true): unknown {
    switch (typeof value) {
      case "string":
        return this.#text(value)
      case "number":
        return this.#number(value)
      case "bigint":
        return this.#text(String(value))
      case "boolean":
        this.#left -= 4
        return value
      case "object":
        break
      default:
        return undefined
    }
    if (value === null) return this.#null()
    if (this.#left <= 0 || this.#around.length >= MAX_DEPTH) return this.#mark(TRUNCATED)
    if (this.#around.includes(value)) return this.#mark(CIRCULAR)
    if (isError(value)) return this.#error(value)
    if (types.isBoxedPrimitive(value)) return this.#value(value.valueOf())
    if (ArrayBuffer.isView(value) && value.byteLength > this.#left) return this.#mark(TRUNCATED)
    const toJson = hasToJson ? (value as { toJSON?: unknown }).toJSON : undefined
    if (typeof toJson === "function") return this.#value(toJson.call(value, ""), false)
    this.#around.push(value)
    this.#left -= 2
    const copy = Array.isArray(value) ? this.#items(value) : this.#members(value as never, {})
    this.#around.pop()
    return copy
  }

  #text(text: string): string {
    return this.#fitted(this.#clean(text))
  }

  #fitted(text: string): string {
    const left = this.#left
    const size = this.#measureText(text)
    this.#left -= size + 2
    return size <= left ? text : `${prefix(text, left)}${TRUNCATED}`
  }

  /** A secret may be all digits. */
  #number(value: number): number | string | null {
    if (!Number.isFinite(value)) return this.#null()
    const text = String(value)
    const safe = this.#clean(text)
    this.#left -= safe.length
    return safe === text ? value : safe
  }

  #mark(mark: string): string {
    this.#left -= mark.length + 2
    return mark
  }

  #null(): null {
    this.#left -= 4
    return null
  }

  #items(list: readonly unknown[], most = Number.POSITIVE_INFINITY): unknown[] {
    const copy: unknown[] = []
    for (let at = 0; at < list.length; at++) {
      if (this.#left <= 0 || at >= most) {
        copy.push(TRUNCATED)
        break
      }
      this.#left -= 1
      copy.push(this.#guarded(() => this.#value(list[at]) ?? this.#null()))
    }
    return copy
  }

  #members(value: Record<string, unknown>, copy: object, isLeftOut?: (key: string) => boolean): object {
    for (const key of Object.keys(value)) {
      if (isLeftOut?.(key)) continue
      if (this.#left <= 0) {
        define(copy, TRUNCATED, true)
        break
      }
      this.#left -= 2
      const name = this.#text(key)
      const member = this.#guarded(() => this.#value(value[key]))
      if (member !== undefined) define(copy, name, member)
    }
    return copy
  }

  #error(error: Error, causes = 0): object {
    this.#around.push(error)
    this.#left -= 2
    const copy: Record<string, unknown> = { type: this.#text(errorType(error)) }
    const { name } = error
    if (typeof name === "string" && name !== "Error" && name !== copy.type) copy.name = this.#text(name)
    copy.message = this.#guarded(() => this.#text(String(error.message)))
    const set = (key: string, read: () => unknown) => {
      const member = this.#guarded(read)
      if (member !== undefined) copy[key] = member
    }
    set("code", () => this.#value((error as { code?: unknown }).code))
    set("cause", () => this.#cause(error.cause, causes + 1))
    set("errors", () => {
      const { errors } = error as { errors?: unknown }
      return Array.isArray(errors) ? this.#items(errors, MAX_ERRORS) : undefined
    })
    if (!this.#isBrief) this.#members(error as never, copy, key => shown.has(key))
    this.#stack(error, copy)
    asLoggedError(copy)
    this.#around.pop()
    return copy
  }

  #cause(cause: unknown, causes: number): unknown {
    if (!isError(cause)) return this.#value(cause)
    if (this.#around.includes(cause)) return this.#mark(CIRCULAR)
    if (causes > MAX_CAUSES || this.#around.length >= MAX_DEPTH || this.#left <= 0)
      return this.#mark(TRUNCATED)
    return this.#error(cause, causes)
  }

  #stack(error: Error, copy: Record<string, unknown>): void {
    const stack = this.#guarded(() => this.#clean(String(error.stack ?? "")))
    if (typeof stack !== "string" || stack === "" || this.#stacksLeft <= 0) return
    copy.stack = stack.length > this.#stacksLeft ? `${prefix(stack, this.#stacksLeft)}${TRUNCATED}` : stack
    this.#stacksLeft -= stack.length
    this.errors.push(copy)
  }
}

function errorType(error: Error): string {
  const made: unknown = error.constructor
  return typeof made === "function" ? made.name : String(error.name)
}

/** Also with the name "__proto__". */
function define(copy: object, key: string, value: unknown): void {
  if (key === "__proto__")
    Object.defineProperty(copy, key, { value, enumerable: true, configurable: true, writable: true })
  else (copy as Record<string, unknown>)[key] = value
}

/** The longest beginning that has at most so many bytes within JSON, never half of a surrogate pair. */
export function prefix(text: string, bytes: number): string {
  let left = bytes
  let at = 0
  while (at < text.length) {
    const isPair = isPairAt(text, at)
    left -= isPair ? 4 : unitBytes(text.charCodeAt(at))
    if (left < 0) break
    at += isPair ? 2 : 1
  }
  return text.slice(0, at)
}

/** The bytes of a text within JSON, without its quotes. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}

function isPairAt(text: string, at: number): boolean {
  return text.codePointAt(at)! > 0xffff
}

/** Of one UTF-16 unit that is not part of a pair, as `JSON.stringify` writes it. */
function unitBytes(unit: number): number {
  if (unit === 0x22 || unit === 0x5c || (unit >= 0x08 && unit <= 0x0d && unit !== 0x0b)) return 2
  if (unit < 0x20 || (unit >= 0xd800 && unit <= 0xdfff)) return 6
  if (unit < 0x80) return 1
  return unit < 0x800 ? 2 : 3
}
