import type { Json } from "../core/json.ts"
import type { Umbra } from "../umbra.ts"
import type { JobSnapshot } from "./job-snapshot.ts"

/** A submitted job, with the commands that concern it. */
export class JobHandle<Output = Json> {
  readonly id: string
  readonly #umbra: Umbra

  constructor(umbra: Umbra, id: string) {
    this.#umbra = umbra
    this.id = id
  }

  wait(options?: { readonly timeoutMs?: number }): Promise<JobSnapshot & { readonly output: Output }> {
    return this.#umbra.wait(this.id, options) as Promise<JobSnapshot & { readonly output: Output }>
  }

  watch(options?: { readonly signal?: AbortSignal }): ReturnType<Umbra["watch"]> {
    return this.#umbra.watch(this.id, options)
  }

  status(): Promise<JobSnapshot> {
    return this.#umbra.job(this.id)
  }

  cancel(reason?: string): Promise<void> {
    return this.#umbra.cancel(this.id, reason)
  }

  retry(): Promise<void> {
    return this.#umbra.retry(this.id)
  }

  signal(name: string, data?: Json): Promise<void> {
    return this.#umbra.signal(this.id, name, data)
  }
}
