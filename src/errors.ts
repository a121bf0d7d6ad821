/**
 * The one table of errors. A code never changes its meaning; `docs/reference/errors.md` lists exactly these codes
 * (test/shape/errors.test.ts). E1xx: what a user wrote. E2xx: rendering templates. E3xx: commands to a job.
 * E4xx: why a node failed. E5xx: storage. E6xx: the process and its configuration.
 * E7xx: pipelines. E8xx: artifacts.
 */
export interface ErrorKind {
  /** A few words, the heading in docs/reference/errors.md. */
  readonly title: string
  /** The HTTP status an API answers with. */
  readonly status: number
  /** May the same action succeed later without a change? */
  readonly retryable: boolean
  /** Of a command: 1, the result is negative; 2, the arguments are invalid. */
  readonly exitCode: 1 | 2
}

const kind = (title: string, status: number, retryable = false): ErrorKind => {
  return { title, status, retryable, exitCode: 1 }
}

/** An error about what was given to a command: a document, a file, an option, a setting. */
const invalid = (title: string, status: number): ErrorKind => {
  return { title, status, retryable: false, exitCode: 2 }
}

export const errorTable = {
  E101: invalid("invalid document", 422),
  E102: invalid("config fails the schema of its handler or adapter", 422),
  E103: invalid("unknown handler or adapter type", 422),
  E104: invalid("duplicate id, name or reader of a queue", 422),
  E105: invalid("missing dependency", 422),
  E106: invalid("node depends on itself", 422),
  E107: invalid("cycle", 422),
  E108: invalid("no entry or no exit", 422),
  E109: invalid("unreachable node or route", 422),
  E110: invalid("template syntax", 422),
  E111: invalid("reference to an unknown name", 422),
  E112: invalid("secret in a value that is stored", 422),
  E113: invalid("queue that no route reads", 422),
  E114: invalid("emitted kind without a queue", 422),
  E115: invalid("adapter not allowed at this position", 422),

  E201: kind("missing value in a template", 422),
  E202: kind("template cannot be evaluated", 422),
  E203: kind("template limit reached", 422),

  E301: kind("no such job", 404),
  E302: kind("job has ended", 409),
  E303: kind("job has not ended", 409),
  E304: invalid("input fails the workflow's schema", 422),
  E305: kind("no such workflow", 404),
  E306: kind("idempotency key used for another submission", 409),
  E307: kind("nothing to retry", 409),
  E309: invalid("invalid argument", 422),
  E310: kind("no such node", 404),
  E311: kind("invalid alias target", 422),
  E312: kind("resume token is stale", 409),
  E313: kind("no such moment or payload of a job", 404),
  E314: kind("effects of a fork are not confirmed", 409),
  E315: kind("no such bulk operation", 404),
  E316: kind("job has changed since the bulk operation began", 409),
  E317: invalid("signal's data fails its schema", 422),
  E319: kind("job has started", 409),
  E320: kind("no such token", 404),
  E330: invalid("invalid schedule", 422),
  E331: kind("no such schedule", 404),
  E332: kind("too many schedules", 409),

  E401: kind("handler failed", 500, true),
  E402: kind("attempt timed out", 504, true),
  E403: kind("config rejected when the node ran", 422),
  E404: kind("output is not JSON", 500),
  E405: kind("output too large", 500),
  E406: kind("output fails the handler's schema", 500),
  E407: kind("secret missing or not allowed", 422),
  E408: kind("service did not respond", 502, true),
  E409: kind("service is rate limited", 429, true),
  E410: kind("service failed", 502, true),
  E411: kind("service rejected the request", 502),
  E412: kind("address not allowed", 403),
  E413: kind("response too large", 502),
  E414: kind("response cannot be read", 502),
  E415: kind("worker thread died", 500, true),
  E416: kind("signal did not arrive in time", 504),
  E417: kind("process died too often while the node ran", 500),
  E418: kind("no heartbeat in time", 504, true),
  E419: kind("header cannot be sent", 422),
  E420: kind("operation failed at its provider", 502, true),
  E421: kind("submitted without a provider", 422),
  E422: kind("invalid answer from the provider", 502),
  E423: kind("provider not configured in this process", 503, true),
  E424: kind("address outside the provider's origins", 403),
  E425: kind("operation belongs to another owner", 409),
  E426: kind("provider not allowed for this owner", 403),
  E427: kind("content has a type that is not accepted", 422),
  E430: kind("child job cancelled or expired", 500),
  E431: kind("workflows nested too deeply", 422),
  E432: kind("workflow would run inside itself", 422),
  E433: kind("for_each does not yield a list", 422),
  E434: kind("list of for_each too long", 422),
  E435: kind("when yields text", 422),

  E501: kind("storage unavailable", 503, true),
  E502: kind("storage rejected the data", 422),
  E503: kind("folder in use by another process", 409, true),
  E504: invalid("unknown storage location", 422),
  E505: kind("database does not match this release", 500),
  E506: kind("database denied access or rejected a statement", 500),
  E507: kind("journal of a job cannot be read", 500),
  E508: kind("embedded database cannot be used", 500),

  E601: invalid("file cannot be read", 400),
  E602: invalid("handlers cannot be loaded", 400),
  E603: invalid("input is not JSON", 400),
  E604: invalid("options missing or conflicting", 400),
  E605: invalid("providers cannot be loaded", 400),
  E610: kind("partition moved to another engine", 503, true),
  E611: kind("engine is overloaded", 503, true),
  E612: kind("engine is closed", 503),
  E613: kind("no engine answered", 503, true),
  E614: kind("time for input checks exhausted", 503, true),
  E620: invalid("invalid setting", 400),
  E630: kind("not authenticated", 401),
  E631: kind("not allowed", 403),
  E632: kind("too many requests", 429, true),
  E633: invalid("invalid request", 400),
  E634: kind("no such path", 404),
  E635: kind("request body too large", 413),
  E636: kind("unsupported content type", 415),
  E637: invalid("refused to listen without authentication", 400),
  E638: invalid("cannot listen on the address", 400),
  E639: kind("internal error", 500),
  E645: kind("signing keys cannot be fetched", 503, true),
  E646: kind("too many unfinished jobs", 429, true),
  E647: kind("method not allowed", 405),
  E648: kind("file would be too large", 413),
  E650: kind("server cannot be reached", 503, true),
  E651: invalid("not an Umbra server", 502),
  E652: invalid("server runs another release", 502),
  E660: invalid("no such provider", 404),
  E661: kind("webhook is not authentic", 401),
  E662: kind("webhook cannot be read", 422),

  E701: kind("circuit breaker is open", 503, true),
  E702: kind("too many concurrent executions", 429, true),
  E703: kind("emitted to a kind without a queue", 422),
  E704: kind("message has passed too many routes", 422),
  E705: kind("message emits too much", 422),
  E706: kind("no such message", 404),
  E707: kind("job does not run a pipeline", 422),
  E708: kind("nothing to replay", 409),
  E709: kind("process died too often while the message was processed", 422),
  E710: kind("workflow cannot be used here", 422),
  E711: kind("not available on workers", 422),
  E712: kind("too many dead letters", 422),
  E720: invalid("adapters cannot be loaded", 400),
  E721: kind("file not allowed", 403),
  E722: kind("file of a pipeline cannot be read", 500, true),
  E723: kind("file of a pipeline cannot be written", 500, true),
  E724: kind("line cannot be read", 422),
  E725: kind("message has the wrong shape for the adapter", 422),

  E801: kind("artifact store unavailable", 503, true),
  E802: kind("no such artifact", 404),
  E803: kind("artifact was removed", 410),
  E804: kind("artifact too large", 413),
  E805: kind("artifacts of the owner exceed their quota", 409),
  E806: kind("artifact is referenced", 409),
  E807: kind("reference to an artifact that does not exist", 422),
  E808: kind("no artifact store configured", 409),
  E809: kind("range outside the artifact", 416),
  E810: kind("artifact store refused access", 500),
} as const satisfies Record<string, ErrorKind>

export type ErrorCode = keyof typeof errorTable

export interface UmbraErrorOptions {
  readonly cause?: unknown
  /** Machine-readable particulars: JSON only, never a secret. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** Every error that Umbra throws intentionally. The message says what to do next. */
export class UmbraError extends Error {
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: UmbraErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = "UmbraError"
    this.code = code
    this.details = options.details ?? {}
  }

  get status(): number {
    return errorTable[this.code].status
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable
  }
}
