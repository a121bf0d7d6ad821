/**
 * OpenTelemetry spans: `umbra.submit`, and below it `umbra.node` for every attempt (docs/reference/tracing.md).
 *
 * 1. The user brings the SDK. Until one is registered no span is made: the only cost is the check for it.
 * 2. The context is durable: a job keeps the traceparent of its submission (docs/decisions/0013), so an attempt has its
 *    parent in whichever process it runs, however much later.
 * 3. Code that continues after the end of an attempt does not run inside its span.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api"

const pattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** The format of W3C Trace Context: `00-<trace>-<span>-<flags>`. */
export function isTraceparent(text: unknown): text is string {
  return typeof text === "string" && text.length <= 200 && pattern.test(text)
}

/** Undefined: no SDK is registered. */
function tracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer("umbra")
    : provider.getTracer("umbra")
}

function parentContext(traceparent: string | null | undefined): Context {
  const found = isTraceparent(traceparent) ? pattern.exec(traceparent) : null
  if (found === null) return ROOT_CONTEXT
  const [, traceId, spanId, flags] = found
  const remote: SpanContext = {
    traceId: traceId!,
    spanId: spanId!,
    traceFlags: Number.parseInt(flags!, 16),
    isRemote: true,
  }
  return trace.setSpanContext(ROOT_CONTEXT, remote)
}

function formatTraceparent(span: Span | undefined): string | undefined {
  const found = span?.spanContext()
  if (found === undefined || !isSpanContextValid(found)) return undefined
  return `00-${found.traceId}-${found.spanId}-${(found.traceFlags & 0xff).toString(16).padStart(2, "0")}`
}

/** For services that are called from here: the traceparent of the active span, if there is one. */
export function activeTraceparent(): string | undefined {
  return formatTraceparent(trace.getActiveSpan())
}

export function activeTraceHeader(): { readonly traceparent?: string } {
  const traceparent = activeTraceparent()
  return traceparent === undefined ? {} : { traceparent }
}

/** Runs `work` as if the span of another thread or process were the active one. */
export function withinTrace<T>(traceparent: string | undefined, work: () => T): T {
  return traceparent === undefined ? work() : context.with(parentContext(traceparent), work)
}

/**
 * Runs a submission in its span: a child of the active span, else of the given traceparent. `submit` receives the
 * traceparent to store with the job.
 */
export function inSubmitSpan<T>(
  given: SubmitSpan,
  submit: (traceparent: string | undefined) => Promise<T>,
  describe: (submitted: T) => Attributes,
): Promise<T> {
  const { traceparent } = given
  const spans = tracer()
  // An invalid traceparent is rejected with the other arguments.
  if (spans === undefined || (traceparent !== undefined && !isTraceparent(traceparent)))
    return submit(traceparent)
  return inSpan(spans, given, submit, describe)
}

interface SubmitSpan {
  readonly traceparent?: string | undefined
  readonly workflow: unknown
}

async function inSpan<T>(
  spans: Tracer,
  { traceparent, workflow }: SubmitSpan,
  submit: (traceparent: string | undefined) => Promise<T>,
  describe: (submitted: T) => Attributes,
): Promise<T> {
  const parent = trace.getActiveSpan() === undefined ? parentContext(traceparent) : context.active()
  const name = workflowName(workflow)
  const attributes = name === undefined ? {} : { "umbra.workflow": name }
  const span = spans.startSpan("umbra.submit", { kind: SpanKind.PRODUCER, attributes }, parent)
  try {
    const submitted = await context.with(trace.setSpan(parent, span), () => submit(formatTraceparent(span)))
    span.setAttributes(describe(submitted))
    return submitted
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (typeof code === "string") span.setAttribute("umbra.error_code", code)
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : "" })
    throw error
  } finally {
    span.end()
  }
}

/** The span of a job that a tick starts, which is a trace of its own. Returns the traceparent to store with the job. */
export function traceTick(of: {
  readonly jobId: string
  readonly workflow: string
  readonly schedule: string
  readonly tick: number
}): string | undefined {
  const attributes = {
    "umbra.workflow": of.workflow,
    "umbra.job_id": of.jobId,
    "umbra.schedule": of.schedule,
    "umbra.tick": new Date(of.tick).toISOString(),
  }
  const span = tracer()?.startSpan("umbra.submit", { kind: SpanKind.PRODUCER, attributes }, ROOT_CONTEXT)
  span?.end()
  return formatTraceparent(span)
}

/** The name for a span: a value that is not a workflow has none, and is rejected later. */
function workflowName(workflow: unknown): string | undefined {
  const name = typeof workflow === "string" ? workflow : (workflow as { name?: unknown } | null)?.name
  return typeof name === "string" ? name : undefined
}

/** The attributes of an attempt's span. */
interface AttemptInfo {
  readonly jobId: string
  readonly workflow: string
  readonly workflowVersion: number
  readonly nodeId: string
  readonly handler: string
  readonly attempt: number
  readonly shownAttempt: number
  readonly traceparent: string | null
}

interface Ended {
  readonly type: string
  readonly fault?: { readonly code: string; readonly message: string }
}

export interface AttemptSpan {
  /** The handler's own spans are children of this one. */
  run<T>(work: () => T): T
  /** null: it was aborted. `goOn` runs outside the span. */
  end(outcome: Ended | null, goOn: () => void): void
}

/** null: there is no SDK. */
export function attemptSpan(task: AttemptInfo): AttemptSpan | null {
  const spans = tracer()
  if (spans === undefined) return null
  const attributes: Attributes = {
    "umbra.job_id": task.jobId,
    "umbra.workflow": task.workflow,
    "umbra.workflow_version": task.workflowVersion,
    "umbra.node": task.nodeId,
    "umbra.handler": task.handler,
    "umbra.attempt": task.shownAttempt,
    "umbra.fence": task.attempt,
  }
  const parent = parentContext(task.traceparent)
  const span = spans.startSpan("umbra.node", { kind: SpanKind.CONSUMER, attributes }, parent)
  return {
    run: work => context.with(trace.setSpan(parent, span), work),
    end(outcome, goOn) {
      span.setAttribute("umbra.outcome", outcome?.type ?? "aborted")
      if (outcome?.fault !== undefined) {
        const { code, message } = outcome.fault
        span.setAttribute("umbra.error_code", code)
        span.setStatus({ code: SpanStatusCode.ERROR, message })
      }
      span.end()
      context.with(ROOT_CONTEXT, goOn)
    },
  }
}
