/**
 * URLs of a declarative provider.
 *
 * 1. The value of an expression stays within its path segment or query value: it is percent-encoded, so that
 *    an external id such as `../../account/users/1` cannot name another resource.
 * 2. A request with credentials goes to an origin that the operator wrote, never to one that a job chose.
 */
import type { Json } from "../core/json.ts"
import { HandlerError } from "../worker/fail.ts"
import { render } from "./http-outcome.ts"
import type { HttpProviderSpec, RequestSpec } from "./http-spec.ts"

export function renderUrl({ url, query }: RequestSpec, names: { readonly [name: string]: Json }): URL {
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
  return new HandlerError(message, { code: "E422", retryable: false })
}

/** The part of a URL template that decides where a request goes, with plain secrets treated as text. */
function authority(template: string): string {
  const text = template.replaceAll(/\{\{-?\s*secrets\s*[.[][^{}|]*\}\}/g, "secret")
  return /^(?:[a-z]+:\/\/)?[^/?#]*/i.exec(text)![0]
}

/** Can a job's data decide where the request goes? */
export function hasOpenOrigin({ url }: RequestSpec): boolean {
  return /\{[{%]/.test(authority(url))
}

/** The origins of its requests, as far as the definition contains them. */
export function writtenOrigins({ submit, poll, cancel }: HttpProviderSpec): string[] {
  const urls = [submit, poll, cancel].flatMap(request => (request === undefined ? [] : request.url))
  const origins = urls.map(url => /^https?:\/\/[^/?#{}]+/i.exec(url)?.[0] ?? "")
  // An origin that continues with a template is not complete.
  const isWhole = (origin: string, url: string) => !url.slice(origin.length).startsWith("{")
  return [
    ...new Set(
      origins.flatMap((origin, index) =>
        URL.canParse(origin) && isWhole(origin, urls[index]!) ? new URL(origin).origin : [],
      ),
    ),
  ]
}
