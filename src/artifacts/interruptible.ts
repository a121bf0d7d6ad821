/** Ends with the reason of the abort, also while the source yields nothing. */
export async function* interruptible<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]()
  let ended = false
  try {
    for (;;) {
      const step = await nextUnlessAborted(iterator, signal)
      if (step.done) {
        ended = true
        return
      }
      yield step.value
    }
  } finally {
    // Not awaited: `return` of a generator resolves only after its current step.
    if (!ended) Promise.resolve(iterator.return?.()).catch(() => {})
  }
}

function nextUnlessAborted<T>(
  iterator: AsyncIterator<T>,
  signal: AbortSignal | undefined,
): Promise<IteratorResult<T>> {
  if (signal === undefined) return iterator.next()
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener("abort", abort, { once: true })
    const settled = () => signal.removeEventListener("abort", abort)
    iterator.next().then(resolve, reject).finally(settled)
  })
}
