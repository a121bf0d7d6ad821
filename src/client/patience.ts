/** Waits between retries: exponential, with jitter, so that many clients do not return to a restarted server at once. */
export interface Backoff {
  readonly initialMs: number
  readonly maxMs: number
}

/** Between half and all of the doubled time. `tries` counts the failed ones, from 1. */
export function backoffMs({ initialMs, maxMs }: Backoff, tries: number): number {
  const full = Math.min(maxMs, initialMs * 2 ** Math.min(tries - 1, 30))
  return full * (0.5 + Math.random() / 2)
}

/** Rejects with the signal's reason when it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort)
      resolve()
    }, ms)
    signal?.addEventListener("abort", abort, { once: true })
  })
}

/** A unique key. Pages that are not served securely have no randomUUID. */
export function newKey(): string {
  const source: Partial<typeof globalThis.crypto> | undefined = globalThis.crypto
  if (source?.randomUUID !== undefined) return source.randomUUID()
  const bytes = new Uint8Array(16)
  if (source?.getRandomValues !== undefined) source.getRandomValues(bytes)
  else for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(Math.random() * 256)
  return `${Date.now().toString(16)}-${Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("")}`
}
