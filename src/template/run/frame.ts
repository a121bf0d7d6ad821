import type { Value } from "./values.ts"

/** Names that a template has set. Loops and block bodies have their own frames, so their names do not leak. */
export class Frame {
  readonly #parent: Frame | null
  readonly #values = new Map<string, Value>()

  constructor(parent: Frame | null) {
    this.#parent = parent
  }

  get(name: string): Value | undefined {
    const value = this.#values.get(name)
    if (value !== undefined || this.#parent === null) return value
    return this.#parent.get(name)
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value)
  }
}
