/** A handler that runs in a thread with an SDK's context of its own, and says which span it sees. */
import { context, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { defineHandler } from "../../src/worker/handler.ts"

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())

export const threaded = defineHandler({
  name: "threaded",
  thread: import.meta.url,
  run: () => {
    const { traceId, spanId } = trace.getActiveSpan()?.spanContext() ?? {}
    return { traceId, spanId }
  },
})
