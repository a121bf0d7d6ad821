/**
 * The declarative form: converts a plain REST provider to one of defineProvider's. Requests are sent like
 * those of `call_external_service`: to allowed addresses, bounded in time and size, with secrets filled in
 * last.
 */
import type { Json } from "../core/json.ts"
import { compileValue } from "../template/index.ts"
import { activeTraceHeader } from "../trace.ts"
import { parseBody, statusFault } from "../worker/http/answer.ts"
import { HttpClient, type HttpResponse } from "../worker/http/client.ts"
import { workerSettings } from "../worker/settings.ts"
import { checkedSpec } from "./http-check.ts"
import { parseOutcome, render } from "./http-outcome.ts"
import type { HttpProviderDefinition, HttpProviderSpec, RequestSpec, SignatureSpec } from "./http-spec.ts"
import { renderUrl, writtenOrigins } from "./http-url.ts"
import { defineProvider, type Provider, type ProviderContext, type ProviderDefinition } from "./provider.ts"
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
  const secrets = [spec.submit, spec.poll, spec.cancel].flatMap(request =>
    request === undefined ? [] : secretNames(request),
  )
  return defineProvider({
    name: spec.name,
    secrets,
    // Without credentials there is nothing that another origin could misuse.
    origins: secrets.length === 0 && spec.origins === undefined ? null : allowedOrigins(spec),
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
      const eventId = webhook.event_id === undefined ? "" : idIn(render(webhook.event_id, names))
      const news = webhook.is_hint ? undefined : parseOutcome(webhook, names)
      return { externalId, eventId: eventId || undefined, news }
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
  const response = await http.send({
    method: request.method,
    url: renderUrl(request, names),
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
