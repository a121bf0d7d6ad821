/**
 * The declarative form: converts a plain REST provider to one of defineProvider's. Requests are sent like
 * those of `call_external_service`: to allowed addresses, bounded in time and size, with secrets filled in
 * last.
 */

import { readFile } from "node:fs/promises"
import { parse } from "yaml"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { compileValue, type Encode, type Scope } from "../template/index.ts"
import { activeTraceHeader } from "../trace.ts"
import { finalError, type HandlerError } from "../worker/fail.ts"
import { HttpClient, type HttpResponse, parseBody, statusFault } from "../worker/http/client.ts"
import { exportsIn } from "../worker/load.ts"
import { workerSettings } from "../worker/settings.ts"
import {
  checkedSpec,
  type HttpProviderDefinition,
  type HttpProviderSpec,
  type RequestSpec,
  type SignatureSpec,
} from "./http-spec.ts"
import {
  defineProvider,
  isProvider,
  type OperationNews,
  type Provider,
  type ProviderContext,
  type ProviderDefinition,
  UnreadableWebhook,
} from "./provider.ts"
import type { Signature } from "./signature.ts"

export interface HttpProviderOptions {
  /** Default: the worker's setting of that name. */
  readonly allowPrivateAddresses?: boolean | readonly string[]
}

export function httpProvider(
  definition: HttpProviderDefinition,
  options: HttpProviderOptions = {},
): Provider {
  const spec = checkedSpec(definition)
  const { allowPrivateAddresses = workerSettings().allowPrivateAddresses } = options
  const http = new HttpClient({ allowPrivateAddresses })
  const client = { http, spec }
  const secrets = listRequests(spec).flatMap(secretNames)
  return defineProvider({
    name: spec.name,
    secrets,
    // Without credentials there is nothing that another origin could misuse.
    origins: secrets.length === 0 && spec.origins === undefined ? null : allowedOrigins(spec),
    hasSecretOrigin: hasSecretOrigin(spec),
    ...limitsFrom(spec),
    ...(spec.submit === undefined ? {} : submitPart(client, spec.submit)),
    ...(spec.poll === undefined ? {} : pollPart(client, spec.poll)),
    ...(spec.cancel === undefined ? {} : cancelPart(client, spec.cancel)),
    ...(spec.webhook === undefined ? {} : webhookPart(spec.webhook)),
  })
}

function allowedOrigins(spec: HttpProviderSpec): string[] {
  return [...writtenOrigins(spec), ...(spec.origins ?? [])]
}

function limitsFrom(spec: HttpProviderSpec): Partial<ProviderDefinition> {
  const { concurrency, rate, poll_seconds, poll_jitter, max_poll_errors, ttl_seconds } = spec
  return {
    concurrency,
    rate,
    owners: spec.owners,
    account: spec.account,
    concurrencyPerOwner: spec.concurrency_per_owner ?? null,
    ratePerOwner: spec.rate_per_owner ?? null,
    honoursKeys: spec.honours_keys,
    store: spec.store,
    pollSeconds: poll_seconds,
    pollJitter: poll_jitter,
    maxPollErrors: max_poll_errors,
    ttlSeconds: ttl_seconds,
    timeoutSeconds: spec.timeout_seconds + 1,
  }
}

interface Client {
  readonly http: HttpClient
  readonly spec: HttpProviderSpec
}

type Names = { readonly [name: string]: Json }

function submitPart(
  client: Client,
  submit: NonNullable<HttpProviderSpec["submit"]>,
): Partial<ProviderDefinition> {
  const { external_id, idempotency_header, ...request } = submit
  return {
    async submit(config, ctx) {
      const key = ctx.idempotencyKey
      const names = { config, key, job_id: ctx.jobId, node_id: ctx.nodeId }
      const headers = { ...activeTraceHeader(), [idempotency_header]: key }
      const response = await send(client, { request, names, ctx, headers })
      return { externalId: idIn(render(external_id, { ...names, ...answerNames(response) })) }
    },
    externalIdOf: response => idIn(render(external_id, { response, body: bodyIn(response) })),
  }
}

function pollPart(client: Client, poll: NonNullable<HttpProviderSpec["poll"]>): Partial<ProviderDefinition> {
  return {
    async poll({ externalId }, ctx) {
      const names = { external_id: externalId, job_id: ctx.jobId, node_id: ctx.nodeId }
      const response = await send(client, { request: poll, names, ctx })
      return parseOutcome(poll, { ...names, ...answerNames(response) })
    },
  }
}

/** 404 and 410: the operation no longer exists, as intended; 409: it has already ended. */
const alreadyOver = new Set([404, 409, 410])

function cancelPart(client: Client, request: RequestSpec): Partial<ProviderDefinition> {
  return {
    async cancel({ externalId }, ctx) {
      const names = { external_id: externalId, job_id: ctx.jobId, node_id: ctx.nodeId }
      await send(client, { request, names, ctx, alsoFine: alreadyOver })
    },
  }
}

function webhookPart(webhook: NonNullable<HttpProviderSpec["webhook"]>): Partial<ProviderDefinition> {
  return {
    verify: toSignature(webhook.signature),
    webhookIsHint: webhook.is_hint,
    webhook({ body, headers }) {
      const names = { body, headers }
      const externalId = idIn(render(webhook.external_id, names))
      try {
        const eventId = webhook.event_id === undefined ? "" : idIn(render(webhook.event_id, names))
        const news = webhook.is_hint ? undefined : parseOutcome(webhook, names)
        return { externalId, eventId: eventId || undefined, news }
      } catch (error) {
        throw new UnreadableWebhook(externalId, error)
      }
    },
  }
}

/** "": none. `null` as text would be one name for all operations without one. */
function idIn(value: Json): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : ""
}

function toSignature(spec: SignatureSpec): Signature {
  if (spec.scheme === "standard-webhooks") return spec
  const { timestamp_header: timestampHeader, ...rest } = spec
  if (rest.scheme === "hmac-sha256") return { ...rest, timestampHeader }
  const { public_keys: publicKeys, ...ed25519 } = rest
  return { ...ed25519, timestampHeader, publicKeys }
}

interface Sending {
  readonly request: RequestSpec
  readonly names: Names
  readonly ctx: ProviderContext
  readonly headers?: Readonly<Record<string, string>>
  /** Statuses besides 2xx that are not failures. */
  readonly alsoFine?: ReadonlySet<number>
}

async function send({ http, spec }: Client, sending: Sending): Promise<HttpResponse> {
  const { request, ctx, alsoFine } = sending
  const names = { ...sending.names, secrets: secretsIn(request, ctx) }
  const { headers, json } = request
  const own = render(headers ?? {}, names) as Readonly<Record<string, Json>>
  const url = renderUrl(request, names)
  const response = await http.send({
    method: request.method,
    url,
    // A redirect could otherwise let another server answer in the provider's place.
    origins: new Set([url.origin, ...allowedOrigins(spec)]),
    headers: {
      accept: "application/json",
      ...(json === undefined ? {} : { "content-type": "application/json" }),
      ...sending.headers,
      ...Object.fromEntries(Object.entries(own).map(([name, value]) => [name.toLowerCase(), String(value)])),
    },
    body: json === undefined ? undefined : JSON.stringify(render(json, names)),
    timeoutSeconds: spec.timeout_seconds,
    maxRedirects: 5,
    maxResponseBytes: spec.max_response_bytes,
    signal: ctx.signal,
    again: () => ctx.place(),
  })
  const isFine = (response.status >= 200 && response.status < 300) || alsoFine?.has(response.status)
  if (!isFine) throw statusFault(response, ctx.now())
  return response
}

function secretsIn(request: RequestSpec, ctx: ProviderContext): Names {
  return Object.fromEntries(secretNames(request).map(name => [name, ctx.secret(name)]))
}

function secretNames(request: RequestSpec): string[] {
  return compileValue(request as unknown as Json).value.templates.flatMap(({ template }) =>
    template.references.filter(({ name }) => name === "secrets").map(({ path }) => String(path[0])),
  )
}

function answerNames(response: HttpResponse): { readonly response: Json; readonly body: Json } {
  const { body } = parseBody(response)
  return { response: { status: response.status, headers: { ...response.headers }, body }, body }
}

function bodyIn(response: Json): Json {
  return (response as { readonly body?: Json } | null)?.body ?? null
}

/** Converts the answer or webhook of a REST provider to the state of an operation. */
interface OutcomeSpec {
  readonly status?: string | undefined
  readonly done?: readonly (string | number | boolean)[] | undefined
  readonly failed: readonly (string | number | boolean)[]
  readonly output?: unknown
  readonly error?: string | undefined
  readonly retryable: boolean | string
  readonly progress?: string | undefined
  readonly message?: string | undefined
  readonly preview?: unknown
}

function parseOutcome(spec: OutcomeSpec, names: { readonly [name: string]: Json }): OperationNews {
  const status = render(spec.status ?? "", names) as string | number | boolean
  if (spec.done?.includes(status)) return { status: "completed", output: render(spec.output ?? null, names) }
  if (spec.failed.includes(status)) return failedNews(spec, names, status)
  const progress = attempt(spec.progress, names)
  const message = attempt(spec.message, names)
  const preview = attempt(spec.preview, names)
  return {
    status: "running",
    progress: typeof progress === "number" ? progress : undefined,
    message: typeof message === "string" ? message : undefined,
    preview: preview ?? undefined,
  }
}

function failedNews(
  spec: OutcomeSpec,
  names: { readonly [name: string]: Json },
  status: Json,
): OperationNews {
  const error = attempt(spec.error, names)
  const why = typeof error === "string" ? error : error === null ? String(status) : JSON.stringify(error)
  const retryable = attempt(spec.retryable, names)
  const message = `The provider says: ${why}`
  if (typeof retryable !== "string") return { status: "failed", message, retryable: retryable !== false }
  const told =
    "`retryable` of its definition yields text, which is not a condition, so the operation is not retried."
  return { status: "failed", message: `${message} (${told})`, retryable: false }
}

/** Values that are only displayed may be missing. */
function attempt(source: unknown, names: { readonly [name: string]: Json }): Json {
  if (source === undefined) return null
  try {
    return render(source, names)
  } catch {
    return null
  }
}

function render(
  source: unknown,
  names: { readonly [name: string]: Json },
  options?: { readonly encode: Encode },
): Json {
  return compileValue(source as Json).value.render(createScope(names), options)
}

function createScope(names: { readonly [name: string]: Json }): Scope {
  return { names, node: () => undefined, nodeIds: () => [] }
}

/**
 * Loads a user's providers: from a module (every export that is a provider, and every list of them), or from
 * a YAML or JSON file with one provider, or a list of them, in the declarative form.
 */
export async function loadProviders(module: string): Promise<Provider[]> {
  const isFile = /\.(ya?ml|json)$/i.test(module)
  const found = isFile ? await fromFile(module) : await providersIn(module)
  if (found.length > 0) return found
  throw new UmbraError(
    "E605",
    `${module} has no provider. Export the result of defineProvider({ name, … }), or write one in YAML (docs/reference/providers.md).`,
  )
}

/** For a module that may export other things too: those of `--handlers`. */
export async function providersIn(module: string): Promise<Provider[]> {
  return [...new Set((await exportsIn(module)).filter(isProvider))]
}

async function fromFile(file: string): Promise<Provider[]> {
  let content: unknown
  try {
    content = parse(await readFile(file, "utf8"))
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT"
    const why = isAbsent
      ? "does not exist. Check the path; it is relative to the current directory."
      : `cannot be read: ${(error as Error).message}`
    throw new UmbraError("E605", `${file} ${why}`, { cause: error })
  }
  try {
    return [content].flat().map(each => httpProvider(each as HttpProviderDefinition))
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    throw new UmbraError(error.code, `${file}: ${error.message}`, { cause: error })
  }
}

/**
 * URLs of a declarative provider.
 *
 * 1. The value of an expression stays within its path segment or query value: it is percent-encoded, so that
 *    an external id such as `../../account/users/1` cannot name another resource.
 * 2. A request with credentials goes to an origin that the operator wrote, never to one that a job chose.
 */
function renderUrl({ url, query }: RequestSpec, names: { readonly [name: string]: Json }): URL {
  const text = String(render(url, names, { encode }))
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw refused("The provider's URL is not an http or https URL once it is rendered.")
  if (hasDotSegment(text))
    throw refused(
      'The provider\'s URL has a path segment "." or ".." once it is rendered, which would name another resource.',
    )
  const rendered = new URL(text)
  const values = render(query ?? {}, names) as { readonly [name: string]: Json }
  for (const [name, value] of Object.entries(values)) rendered.searchParams.append(name, String(value))
  return rendered
}

/** `urlencode` of the templates leaves "/" unchanged, as in Jinja2. */
function encode(text: string, filter: string | null): string {
  if (filter === 'filter "urlencode"') return text.replaceAll("/", "%2F")
  try {
    return encodeURIComponent(text)
  } catch {
    throw refused("A value in the provider's URL contains a lone surrogate (half a character).")
  }
}

/** URL parsers resolve such segments, also in their encoded forms. */
function hasDotSegment(url: string): boolean {
  const [path = ""] = url.split(/[?#]/)
  return path.split(/[/\\]/).some(segment => /^(\.|%2e){1,2}$/i.test(segment))
}

function refused(message: string): HandlerError {
  return finalError("E422", message)
}

/** The origins of its requests, as far as the definition contains them. */
function writtenOrigins(spec: HttpProviderSpec): string[] {
  return [...new Set(listRequests(spec).flatMap(({ url }) => writtenOrigin(url) ?? []))]
}

function writtenOrigin(url: string): string | undefined {
  const origin = /^https?:\/\/[^/?#{}]+/i.exec(url)?.[0] ?? ""
  // An origin that continues with a template is not complete.
  const isWhole = URL.canParse(origin) && !url.slice(origin.length).startsWith("{")
  return isWhole ? new URL(origin).origin : undefined
}

/** A host that is neither written nor a secret belongs to a definition without credentials (`originProblem`). */
function hasSecretOrigin(spec: HttpProviderSpec): boolean {
  return listRequests(spec).some(
    request => writtenOrigin(request.url) === undefined && secretNames(request).length > 0,
  )
}

function listRequests({ submit, poll, cancel }: HttpProviderSpec): RequestSpec[] {
  return [submit, poll, cancel].filter(request => request !== undefined)
}
